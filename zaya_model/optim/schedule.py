"""Learning rate as a function of the step: linear warm-up, then half a cosine down to a share of the peak."""

import math

from zaya_model.config import OptimizerConfig


def learning_rate_share(step: int, total_steps: int, config: OptimizerConfig) -> float:
    """Share of the peak for the step that follows `step` steps done."""
    warmup = min(config.warmup_steps, total_steps)
    if step < warmup:
        return (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, total_steps - warmup))
    floor = config.final_learning_rate_fraction
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))
