"""The rate of matrix products this device really reaches, and the one its maker prints."""

import time

import torch

# bf16 without sparsity, FLOP/s, from the makers' data sheets.
SPEC_BF16_FLOPS = {"MI300X": 1307.4e12, "MI325X": 1307.4e12, "MI355X": 2516.6e12, "H100": 989.4e12, "H200": 989.4e12}


def measure_matmul_flops(device: torch.device, dtype: torch.dtype, *, seconds: float = 0.15) -> float:
    """Best FLOP/s of square products within about `seconds`; random inputs, since zeros raise the clock."""
    size = 8192 if device.type == "cuda" else 768
    a = torch.randn(size, size, device=device).to(dtype)
    b = torch.randn(size, size, device=device).to(dtype)
    torch.mm(a, b)
    _finish(device)
    best, start = 0.0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        torch.mm(a, b)
        _finish(device)
        best = max(best, 2 * size**3 / (time.perf_counter() - begin))
    return best


def spec_flops(device_name: str) -> float | None:
    """The maker's bf16 figure, or None for a device we do not know."""
    return next((flops for name, flops in SPEC_BF16_FLOPS.items() if name in device_name), None)


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
