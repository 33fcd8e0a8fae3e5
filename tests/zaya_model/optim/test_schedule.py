"""Warm-up, then half a cosine."""

import pytest

from zaya_model.config import Phase
from zaya_model.optim.schedule import learning_rate_share
from zaya_model.presets import build


def phases(*given: dict[str, object], warmup: int = 10, floor: float = 0.2) -> tuple[Phase, ...]:
    steps = sum(phase["steps"] for phase in given)
    optimizer = {"warmup_steps": warmup, "final_learning_rate_fraction": floor}
    listed = [{"name": str(index), **phase} for index, phase in enumerate(given)]
    return build({"train": {"steps": steps, "phases": listed}, "optimizer": optimizer}).phases


def test_it_rises_evenly_and_falls_to_the_floor() -> None:
    (phase,) = phases({"steps": 110})
    assert [learning_rate_share(step, phase) for step in (0, 4, 9)] == pytest.approx([0.1, 0.5, 1.0])
    assert learning_rate_share(60, phase) == pytest.approx(0.6)
    assert learning_rate_share(110, phase) == pytest.approx(0.2)
    shares = [learning_rate_share(step, phase) for step in range(9, 110)]
    assert shares == sorted(shares, reverse=True)


def test_warm_up_longer_than_the_run_never_reaches_the_peak_late() -> None:
    (phase,) = phases({"steps": 4}, warmup=100)
    assert [learning_rate_share(step, phase) for step in range(4)] == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_a_later_phase_starts_at_its_own_peak_without_warm_up() -> None:
    first, second = phases({"steps": 50}, {"steps": 50, "final_learning_rate_fraction": 1.0})
    assert learning_rate_share(49, first) < 0.21
    assert learning_rate_share(50, second) == 1.0
    assert learning_rate_share(99, second) == 1.0
