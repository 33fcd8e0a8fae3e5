"""The page that compares runs, and the figures it draws."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from webapp.runs.models import Attempt


@pytest.fixture
def log_loss(log_metrics):
    """A run that began, and the losses of its steps."""

    def log(run, *losses: float) -> None:
        Attempt.objects.create(run=run, number=1, from_step=0, ended_at=datetime.now(UTC))
        log_metrics(run, 1, loss=list(enumerate(losses, start=1)))

    return log


@pytest.fixture
def sweep(make_run, log_loss):
    """Two runs of one name and one of another, in two groups by learning rate, with a loss each."""
    runs = [make_run("same", tags=("a",), optimizer__muon_learning_rate=0.001),
            make_run("same", tags=("a",), optimizer__muon_learning_rate=0.002),
            make_run("other", train__seed=5, optimizer__muon_learning_rate=0.002)]  # fmt: skip
    for number, run in enumerate(runs):
        log_loss(run, *[number + 1.0] * 10)
    return runs


def ids(runs) -> str:
    return ",".join(str(run.pk) for run in runs)


def figure(client, runs, **more: str) -> dict:
    answer = client.get("/compare/figures", {"runs": ids(runs), "keys": "loss", **more})
    return json.loads(answer.content, parse_constant=pytest.fail)["loss"]


def test_same_names_are_told_apart_and_only_they(operator, sweep, browser_of):
    labels = [trace["name"] for trace in figure(browser_of(operator), sweep)["data"]]
    assert labels == [f"same #{sweep[0].pk}", f"same #{sweep[1].pk}", "other"]


def test_a_run_keeps_its_colour_while_others_are_hidden(operator, sweep, browser_of):
    traces = figure(browser_of(operator), sweep, hide=str(sweep[1].pk))["data"]
    assert [trace["meta"]["series"] for trace in traces] == [0, 2]


def test_x_over_tokens_is_the_steps_times_a_steps_tokens(operator, sweep, browser_of):
    client = browser_of(operator)
    steps, tokens = (figure(client, sweep[:1], x=x)["data"][0]["x"] for x in ("step", "tokens"))
    assert tokens == [step * sweep[0].tokens_per_step for step in steps]


def test_x_over_time_begins_with_the_run(operator, sweep, browser_of):
    began = datetime.now(UTC) - timedelta(hours=2)
    type(sweep[0]).objects.update(started_at=began)
    hours = figure(browser_of(operator), sweep[:1], x="time")["data"][0]["x"]
    assert all(1.9 < hour < 2.1 for hour in hours)


def test_groups_are_means_with_bands(operator, sweep, browser_of):
    traces = figure(browser_of(operator), sweep, group="optimizer.muon_learning_rate")["data"]
    bands = [trace for trace in traces if trace.get("fill")]
    means = {trace["name"]: set(trace["y"]) for trace in traces if not trace.get("fill")}
    assert means == {"muon_learning_rate 0.001 (1)": {1.0}, "muon_learning_rate 0.002 (2)": {2.5}}
    assert set(bands[1]["y"]) == {2.0, 3.0}


def test_page_shows_what_differs_and_what_was_reached(operator, sweep, browser_of):
    page = browser_of(operator).get(f"/compare?runs={ids(sweep)}").content.decode()
    assert "2 of " in page
    assert f'<tr class="different"><th scope="row" class="mono">{"train.seed"}</th>' in page
    assert '<tr ><th scope="row" class="mono">train.steps</th>' in page


def test_runs_of_a_form_and_of_an_address_are_both_understood(operator, sweep, browser_of):
    client = browser_of(operator)
    for query in (f"runs={ids(sweep)}", "&".join(f"runs={run.pk}" for run in sweep), f"runs={ids(sweep)},77777,x,"):
        assert b"Compare 3 runs" in client.get(f"/compare?{query}").content


def test_no_runs_leads_back_to_the_table(operator, browser_of):
    assert b"No runs to compare" in browser_of(operator).get("/compare?runs=4711").content


def test_more_than_fifty_are_cut_with_a_sentence(operator, sweep, browser_of):
    answer = browser_of(operator).get(f"/compare?runs={ids(sweep)},{','.join(map(str, range(90000, 90060)))}")
    assert b"63 runs were chosen; the first 50" in answer.content


def test_what_users_typed_is_text_in_page_and_figure(operator, make_run, log_loss, browser_of):
    runs = [make_run("<b>x</b>"), make_run("'\"><img>", train__seed=1)]
    log_loss(runs[0], 1.0)
    client = browser_of(operator)
    assert figure(client, runs)["data"][0]["name"] == "&lt;b&gt;x&lt;/b&gt;"
    assert b"<b>x" not in client.get(f"/compare?runs={ids(runs)}").content


def test_numbers_that_are_none_are_strict_json(operator, make_run, log_loss, browser_of):
    runs = [make_run(), make_run(train__seed=1)]
    for run in runs:
        log_loss(run, float("nan"), float("inf"))
    client = browser_of(operator)
    assert figure(client, runs, smoothing="0.9")["data"]
    assert figure(client, runs, group="train.seed")["data"] == []
    assert b"NaN" not in client.get(f"/compare?runs={ids(runs)}").content.split(b"data-sweep=")[1].split(b">")[0]


@pytest.mark.parametrize("query", ["runs=1&smoothing=x", "keys=loss", "runs=&group=odd", "runs=9&x=odd&keys=%00"])
def test_odd_questions_are_answered(operator, run, browser_of, query):
    assert browser_of(operator).get(f"/compare/figures?{query}").status_code == 200
