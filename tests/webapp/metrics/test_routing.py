"""Balance by layer, sums that must hold, and who is dead, from loads a trainer reports."""

from datetime import UTC, datetime

import pytest

from webapp.metrics import routing, selectors
from webapp.metrics.selectors import RouterState


def state_of(load, skipped=0, bias=(0.0,), step=10):
    return RouterState(step, load, [skipped] * len(load), [list(bias)] * len(load))


def test_balance_of_a_layer_is_what_its_tokens_say():
    (row,) = routing.balance_of(state_of([[0, 10, 10, 60]], skipped=20, bias=[-0.5, 0.25]))
    assert (row.violation, row.dead, row.overloaded, row.skip_share, row.bias_spread) == (2.0, 1, 1, 0.2, 0.75)


def test_layer_without_tokens_is_no_fault():
    (row,) = routing.balance_of(state_of([[0, 0]]))
    assert (row.violation, row.dead, row.overloaded, row.skip_share) == (0.0, 2, 0, 0.0)


def test_sums_that_hold_need_no_words():
    assert routing.shortfall(state_of([[30, 50], [40, 40]], skipped=20), 100) == ""


@pytest.mark.parametrize("expected", [100, None])
def test_layer_that_lost_tokens_is_named_with_the_number(expected):
    words = routing.shortfall(state_of([[50, 50], [40, 40], [50, 50]]), expected)
    assert words == "Layer 1 counts 80 tokens, not 100."


def test_tokens_between_two_records_are_known_unless_the_count_began_in_between(run, start):
    start(run)
    per_record = run.config["train"]["router_every_steps"] * run.tokens_per_step
    run.attempts.update(from_step=15)
    assert routing.expected_tokens(run, state_of([[1]], step=20)) is None
    assert routing.expected_tokens(run, state_of([[1]], step=30)) == per_record


def test_dead_are_those_that_did_not_come_back(run):
    now = datetime.now(UTC)
    for name, experts in (("died", [[0, 1], [2, 3]]), ("died", [[1, 1]]), ("revived", [[0, 1], [2, 3]])):
        run.events.create(time=now, name=f"expert_{name}", text=str(experts), step=5, data={"experts": experts})
    assert [event.text for event in routing.dead_experts(run)] == ["[[1, 1]]"]


def test_history_keeps_the_newest_record_of_each_bucket_and_never_moves_one(run, start, log_router):
    start(run)
    log_router(run, {step: [[step, 1]] * 4 for step in range(10, 1010, 10)})
    steps = [state.step for state in selectors.read_router_history(run, max_points=20)]
    assert 10 <= len(steps) <= 21
    log_router(run, {1010: [[1, 1]] * 4})
    assert [state.step for state in selectors.read_router_history(run, max_points=20)][: len(steps) - 1] == steps[:-1]


def test_history_has_every_layer(run, start, log_router):
    start(run)
    log_router(run, {10: [[1, 3], [2, 2], [4, 0], [0, 4]]})
    (state,) = selectors.read_router_history(run)
    assert state.layers == [[1, 3], [2, 2], [4, 0], [0, 4]]


def test_run_without_records_has_no_history(run):
    assert selectors.read_router_history(run) == []
