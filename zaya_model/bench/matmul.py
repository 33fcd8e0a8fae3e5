"""The rate of matrix products this device really reaches, and the one its maker prints."""

import platform
import time
from pathlib import Path

import torch

# bf16 without sparsity, FLOP/s, from the makers' data sheets.
SPEC_BF16_FLOPS = {"MI300X": 1307.4e12, "MI325X": 1307.4e12, "MI355X": 2516.6e12, "H100": 989.4e12, "H200": 989.4e12}


def measure_matmul_flops(device: torch.device, dtype: torch.dtype, *, seconds: float = 0.15) -> float:
    """Best FLOP/s of square products within about `seconds`; random inputs, since zeros raise the clock."""
    size = 8192 if device.type == "cuda" else 768
    # Numbers of its own: measuring must not move the random state of a run.
    generator = torch.Generator(device).manual_seed(0)
    a, b = (torch.randn(size, size, device=device, generator=generator).to(dtype) for _ in range(2))
    torch.mm(a, b)
    finish(device)
    best, start = 0.0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        torch.mm(a, b)
        finish(device)
        best = max(best, 2 * size**3 / (time.perf_counter() - begin))
    return best


def spec_flops(device_name: str) -> float | None:
    """The maker's bf16 figure, or None for a device we do not know."""
    return next((flops for name, flops in SPEC_BF16_FLOPS.items() if name in device_name), None)


def device_name(device: torch.device) -> str:
    """What the maker calls it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    threads = torch.get_num_threads()
    return f"{model}, {threads} thread{'s' if threads > 1 else ''}"


def finish(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
