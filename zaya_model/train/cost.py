"""Scalars of one step for the journal: losses, norms, rates, times, throughput, utilisation, router balance."""

import math

from torch import Tensor, special, stack

from zaya_model.train.step import StepResult


def router_scalars(counts_LE: Tensor) -> dict[str, float]:
    """Balance of the classes' tokens (L, E + 1): excess of the worst layer, mean entropy, dead experts, skip share."""
    load, skipped = counts_LE[:, :-1].double(), counts_LE[:, -1].double()
    share = load / load.sum(dim=1, keepdim=True).clamp_min(1)
    entropy = -special.xlogy(share, share).sum(dim=1) / math.log(max(2, load.shape[1]))
    names = ("max_violation", "entropy", "dead_experts", "skip_share")
    figures = stack(
        [
            (share.amax(dim=1) * load.shape[1] - 1).max(),
            entropy.mean(),
            (load == 0).sum().double(),
            skipped.sum() / counts_LE.sum().clamp_min(1),
        ]
    )
    return {f"router/{name}": figure for name, figure in zip(names, figures.tolist(), strict=True)}


def step_scalars(
    result: StepResult, *, tokens_per_step: int, flops_per_token: float, peaks: dict[str, float]
) -> dict[str, float]:
    """All scalars of a step. `peaks` maps `mfu` and `mfu_spec` to the FLOP/s of all devices together, where known."""
    scalars = {"loss": result.loss}
    scalars |= {f"grad_norm/{part}" if part else "grad_norm": norm for part, norm in result.gradient_norms.items()}
    scalars |= {f"lr/{name}": rate for name, rate in result.learning_rates.items()}
    scalars |= {f"time/{name}": seconds for name, seconds in result.seconds.items()}
    seconds = sum(result.seconds.values())
    rate = tokens_per_step / seconds
    scalars |= {"step_seconds": seconds, "tokens_per_second": rate, "flops_per_second": rate * flops_per_token}
    scalars |= {name: min(1.0, rate * flops_per_token / peak) for name, peak in peaks.items()}
    return scalars | router_scalars(result.counts)
