"""The rate at which this device copies its own memory."""

import time

import torch

from zaya_model.bench.matmul import finish


def measure_copy_bytes(device: torch.device, *, seconds: float = 0.5) -> float:
    """Best bytes per second of a large copy, what is read and what is written both counted."""
    size = (1 << 30) if device.type == "cuda" else (256 << 20)
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    best, start = 0.0, time.perf_counter()
    while best == 0.0 or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        target.copy_(source)
        finish(device)
        best = max(best, 2 * size / (time.perf_counter() - begin))
    return best
