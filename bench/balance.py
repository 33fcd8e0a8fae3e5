"""Ours against the usual router: linear, and no bias to balance it. Ends of both curves on the same text and seed."""

import statistics
from typing import Any

from bench._rows import row
from bench._training import training
from zaya_model.train.cost import router_scalars

_STEPS, _END = 800, 40
USUAL: dict[str, Any] = {"model.router": "linear", "balance.enabled": False}


def measure() -> list[dict]:
    """Loss, worst excess of an expert's load, and idle experts over the last steps of both."""
    ours, usual = _end({}), _end(USUAL)
    units = {"loss": "nats/token", "worst expert's excess load": "of a fair share", "dead experts": "of all layers"}
    return [
        row(f"balance: {name} after {_STEPS} steps", ours[name], unit, "linear router, no bias", usual[name])
        for name, unit in units.items()
    ]


def _end(overrides: dict[str, Any]) -> dict[str, float]:
    with training({"train.steps": _STEPS, **overrides}) as run:
        results = [run.step() for _ in range(_STEPS)][-_END:]
    balance = router_scalars(sum(result.counts for result in results))
    return {
        "loss": statistics.mean(result.loss for result in results),
        "worst expert's excess load": balance["router/max_violation"],
        "dead experts": balance["router/dead_experts"],
    }
