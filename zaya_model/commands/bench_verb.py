"""Measure what this machine can do."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each figure")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    import torch

    from zaya_model.bench.matmul import device_name, measure_matmul_flops, spec_flops

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = device_name(device)
    rates = {
        f"matmul_{label}_flops_per_second": measure_matmul_flops(device, dtype, seconds=arguments.seconds)
        for label, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16))
    }
    return {"device": name, **rates, "spec_bf16_flops_per_second": spec_flops(name) or "unknown"}
