"""Measure what this machine can do: products, memory, storage and, under torchrun, messages between processes."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each figure")
    parser.add_argument("--folder", type=Path, default=Path(), help="folder whose disk is measured")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    import torch

    from zaya_model.bench.collectives import measure_all_reduce
    from zaya_model.bench.matmul import device_name, measure_matmul_flops, spec_flops
    from zaya_model.bench.memory import measure_copy_bytes
    from zaya_model.bench.storage import measure_storage_bytes
    from zaya_model.parallel.mesh import join_world

    with join_world("auto") as world:
        device, name = world.device, device_name(world.device)
        rates = {
            f"matmul_{label}_flops_per_second": measure_matmul_flops(device, dtype, seconds=arguments.seconds)
            for label, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16))
        }
        storage = measure_storage_bytes(arguments.folder)
        found: dict[str, object] = {
            "device": name,
            "processes": world.size,
            **rates,
            "spec_bf16_flops_per_second": spec_flops(name) or "unknown",
            "memory_copy_bytes_per_second": measure_copy_bytes(device, seconds=arguments.seconds),
            "storage_write_bytes_per_second": storage["write"],
            "storage_read_bytes_per_second": storage["read"],
        }
        if world.size > 1:
            found["all_reduce"] = {str(size): figures for size, figures in measure_all_reduce(world).items()}
        return found
