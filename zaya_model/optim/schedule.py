"""Learning rate as a function of the step: linear warm-up, then half a cosine down to a share of the peak."""

import math

from zaya_model.config import Phase


def learning_rate_share(step: int, phase: Phase) -> float:
    """Share of the phase's peak for the step that follows `step` steps done in the whole run."""
    done = step - phase.first_step
    warmup = min(phase.warmup_steps, phase.steps)
    if done < warmup:
        return (done + 1) / warmup
    progress = min(1.0, (done - warmup) / max(1, phase.steps - warmup))
    floor = phase.final_learning_rate_fraction
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))
