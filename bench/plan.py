"""What `plan` says of a step on this CPU, beside the step itself: calibrated on one model, tried on others."""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from bench._rows import row
from bench._training import Training
from zaya_model.bench.matmul import measure_matmul_flops
from zaya_model.bench.memory import measure_copy_bytes
from zaya_model.plan import Cluster, estimate_step

_STEPS = 5
_BASE = {"model.hidden_size": 256, "model.moe_intermediate_size": 256, "model.max_position_embeddings": 1024,
         "train.global_batch_size": 8, "train.micro_batch_size": 8}  # fmt: skip
_OTHERS = {
    "twice the experts' width": {"model.moe_intermediate_size": 512},
    "twice the blocks": {"model.num_hidden_layers": 8},
    "four times the length": {"data.sequence_length": 768, "train.global_batch_size": 2, "train.micro_batch_size": 2},
}


def measure() -> list[dict]:
    """Calibrate the utilisation on one model, then plan others and measure them."""
    rate = measure_matmul_flops(torch.device("cpu"), torch.float32, seconds=1.0)
    cluster = Cluster(
        nodes=1, gpus_per_node=1, flops_per_second=rate, utilisation=1.0,
        memory_bytes_per_second=measure_copy_bytes(torch.device("cpu")),
    )  # fmt: skip
    planned, measured = _step(_BASE, cluster)
    cluster = Cluster(**{**vars(cluster), "utilisation": planned["compute"] / measured["compute"]})
    rows = []
    for name, overrides in _OTHERS.items():
        planned, measured = _step({**_BASE, **overrides}, cluster)
        rows += [row(f"plan, {name}: {part}", planned[part], "s", "measured", measured[part]) for part in measured]
    return rows


def _step(overrides: dict, cluster: Cluster) -> tuple[dict[str, float], dict[str, float]]:
    with TemporaryDirectory(prefix="zbench-") as folder:
        run = Training(Path(folder), overrides)
        run.step()
        seconds = [run.step().seconds for _ in range(_STEPS)]
    planned = estimate_step(run.config, run.config.phases[0], cluster)
    parts = {"compute": "forward_backward", "optimizer": "optimizer"}
    return (
        {part: getattr(planned, part) for part in parts},
        {part: min(each[name] for each in seconds) for part, name in parts.items()},
    )
