"""What counts as a spike, and when an expert is dead."""

import math

import pytest
import torch

from zaya_model.config import WatchConfig
from zaya_model.train.watch import ExpertWatch, judge

CALM = [3.0 + 0.01 * (-1) ** n for n in range(32)]


@pytest.mark.parametrize("loss", [3.0, 3.1, 2.0, 0.0])
def test_an_ordinary_or_low_loss_gives_no_alarm(loss: float) -> None:
    assert judge(WatchConfig(), loss, 1.0, CALM) is None


@pytest.mark.parametrize(("loss", "norm"), [(math.nan, 1.0), (math.inf, 1.0), (3.0, math.nan), (3.0, math.inf)])
def test_what_is_no_number_always_spares_the_weights(loss: float, norm: float) -> None:
    alarm = judge(WatchConfig(on_nan="go_on"), loss, norm, [])
    assert alarm.name == "nan"
    assert alarm.spares_weights


def test_a_spike_spares_the_weights_unless_it_is_to_be_taken() -> None:
    assert not judge(WatchConfig(on_spike="go_on"), 9.0, 1.0, CALM).spares_weights
    assert judge(WatchConfig(on_spike="roll_back"), 9.0, 1.0, CALM).spares_weights


def test_outliers_among_the_recent_losses_do_not_hide_a_spike() -> None:
    assert judge(WatchConfig(), 9.0, 1.0, CALM + [30.0] * 8).name == "loss_spike"


@pytest.mark.parametrize(
    ("config", "recent"), [(WatchConfig(), CALM[:8]), (WatchConfig(spike_deviations=0.0), CALM), (WatchConfig(), [])]
)
def test_no_spike_is_seen_with_too_little_to_judge_by_or_where_none_is_wanted(
    config: WatchConfig, recent: list[float]
) -> None:
    assert judge(config, 9.0, 1.0, recent) is None


def test_a_flat_curve_makes_no_spike_of_a_hair() -> None:
    assert judge(WatchConfig(), 3.001, 1.0, [3.0] * 32) is None


def test_an_expert_dies_once_and_comes_back_once() -> None:
    watch, busy, idle = ExpertWatch(3), torch.tensor([[5, 5], [5, 5]]), torch.tensor([[5, 5], [5, 0]])
    seen = [watch.see(counts) for counts in (busy, idle, idle, idle, idle, busy, busy)]
    assert [died for died, _ in seen] == [[], [], [], [(1, 1)], [], [], []]
    assert [revived for _, revived in seen] == [[], [], [], [], [], [(1, 1)], []]


def test_with_zero_steps_nobody_is_called_dead() -> None:
    watch = ExpertWatch(0)
    assert all(watch.see(torch.zeros(1, 4, dtype=torch.int64)) == ([], []) for _ in range(5))
