"""The rate of collectives over all processes of a torchrun, by message size."""

import time

import torch
import torch.distributed as dist

from zaya_model.bench.matmul import finish
from zaya_model.parallel.mesh import World

SIZES = (1 << 16, 1 << 20, 1 << 24, 1 << 28)


def measure_all_reduce(world: World, *, repeats: int = 5) -> dict[int, dict[str, float]]:
    """Seconds and bus bandwidth of an all-reduce by bytes; bus bandwidth is what the slowest link must carry."""
    found = {}
    for size in SIZES if world.device.type == "cuda" else SIZES[:3]:
        message = torch.ones(size // 4, device=world.device)
        seconds = []
        for _ in range(repeats + 1):
            world.wait()
            begin = time.perf_counter()
            dist.all_reduce(message)
            finish(world.device)
            seconds.append(time.perf_counter() - begin)
            message.fill_(1.0)
        best = min(seconds[1:])
        share = 2 * (world.size - 1) / world.size
        found[size] = {"seconds": best, "bus_bytes_per_second": share * size / best}
    return found
