"""What the router's section asks: before the first record, at a step, over time, and when an expert died."""

from datetime import UTC, datetime

import pytest

from webapp.metrics.routing import MEASURES


def test_before_the_first_record_there_is_no_step_and_no_fault(run, operator, browser_of):
    client = browser_of(operator)
    assert client.get(f"/runs/{run.pk}/router").json() == {"step": None}
    assert client.get(f"/runs/{run.pk}/router/history").json()["figure"]["data"] == []


def test_worst_layer_is_shown_over_time_unless_another_is_asked_for(run, start, log_router, operator, browser_of):
    start(run)
    log_router(run, {10: [[4, 4], [1, 7], [4, 4], [4, 4]]})
    client = browser_of(operator)
    assert client.get(f"/runs/{run.pk}/router").json()["layer"] == 1
    assert client.get(f"/runs/{run.pk}/router?layer=3").json()["layer"] == 3


def test_missing_tokens_are_said(run, start, log_router, operator, browser_of):
    start(run)
    log_router(run, {10: [[4, 4]] * 4})
    assert "counts 8 tokens, not" in browser_of(operator).get(f"/runs/{run.pk}/router").json()["shortfall"]


def test_dead_expert_is_told_with_its_step(run, operator, browser_of):
    run.events.create(step=7, time=datetime.now(UTC), name="expert_died", text="No token.", data={"experts": [[0, 1]]})
    assert "Since step 7: No token." in browser_of(operator).get(f"/runs/{run.pk}/parts/alert").text


@pytest.mark.parametrize("measure", [*MEASURES, "", "no such"])
def test_history_of_every_measure_has_a_row_for_each_layer(run, start, log_router, operator, browser_of, measure):
    start(run)
    log_router(run, {10: [[4, 4]] * 4, 20: [[0, 8]] * 4})
    answer = browser_of(operator).get(f"/runs/{run.pk}/router/history?measure={measure}").json()
    assert [len(row) for row in answer["figure"]["data"][0]["z"]] == [2] * 4
