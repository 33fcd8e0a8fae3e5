"""What the charts of a run's page ask: the board, figures at a zoom, marks, pins."""

import pytest
from django.utils import timezone

from webapp.runs.services import open_placements, placement_exited

pytestmark = pytest.mark.django_db


@pytest.fixture
def measured(run, start, log_metrics):
    start(run)
    log_metrics(run, 1, loss=[(step, float(step)) for step in range(1, 3001)], odd__key=[(1, 1.0)])
    return run


def figure_of(client, run, **query):
    answer = client.get(f"/runs/{run.pk}/charts", {"ids": "loss", **query})
    return answer.json()["figures"]["loss"]["data"]


def xs_of(client, run, **query):
    return next(trace["x"] for trace in figure_of(client, run, **query) if trace["meta"]["role"] == "line")


def test_board_has_every_key_once_and_the_houses_pins(measured, operator, browser_of):
    board = browser_of(operator).get(f"/runs/{measured.pk}/board").json()
    assert {"id": "odd/key", "keys": ["odd/key"]}.items() <= board["charts"][-1].items()
    assert board["pins"][0] == "loss"
    assert board["num_keys"] == 2


def test_zoom_gives_the_exact_points_in_it(measured, operator, browser_of):
    assert xs_of(browser_of(operator), measured, **{"from": "99.5", "to": "103.2"}, points="300") == list(
        range(99, 105)
    )


def test_zoom_over_tokens_is_meant_in_tokens(measured, operator, browser_of):
    scale = measured.tokens_per_step
    query = {"x": "tokens", "from": 10 * scale, "to": 12 * scale}
    assert xs_of(browser_of(operator), measured, **query) == [10 * scale, 11 * scale, 12 * scale]


@pytest.mark.parametrize("kind", ["time", "relative"])
def test_zoom_over_time_finds_the_steps_of_that_time(measured, operator, browser_of, kind):
    places = xs_of(browser_of(operator), measured, x=kind)
    shown = xs_of(browser_of(operator), measured, **{"x": kind, "from": places[40], "to": places[50]})
    assert shown[0] <= places[40] < places[50] <= shown[-1]
    assert len(shown) < len(places)


@pytest.mark.parametrize("bound", ["nan", "inf", "-1e400", "1e300", "<b>", ""])
def test_zoom_to_no_place_shows_everything(measured, operator, browser_of, bound):
    assert xs_of(browser_of(operator), measured, **{"from": bound})[-1] == 3000


def test_chart_has_no_more_points_than_it_has_room_for(measured, operator, browser_of):
    assert len(xs_of(browser_of(operator), measured, points="300")) <= 301


def test_marks_are_checkpoints_restarts_and_incidents_alone(run, start, operator, browser_of):
    now = timezone.now()
    run.checkpoints.create(step=5, attempt=1, status="durable", created_at=now, updated_at=now)
    start(run)
    placement_exited(open_placements(run)[0], exit_code=-9)
    run.refresh_from_db()
    start(run, from_step=6)
    for step, name in ((1, "phase"), (7, "nan")):
        run.events.create(step=step, time=now, name=name, text=name)
    marks = browser_of(operator).get(f"/runs/{run.pk}/marks").json()
    assert {(mark["step"], mark["kind"]) for mark in marks} == {(5, "checkpoint"), (6, "restart"), (7, "incident")}


def test_pins_are_kept_for_the_run_or_for_all_and_forgotten(run, make_run, viewer, browser_of):
    client, other = browser_of(viewer), make_run("other")
    pins = lambda of: client.get(f"/runs/{of.pk}/board").json()["pins"]  # noqa: E731
    usual = pins(run)
    send = lambda query, charts: client.post(f"/runs/{run.pk}/pins{query}", {"charts": charts}, "application/json")  # noqa: E731
    assert send("", ["mfu"]).status_code == 204
    assert send("?default", ["rates"]).status_code == 204
    assert (pins(run), pins(other)) == (["mfu"], ["rates"])
    client.delete(f"/runs/{run.pk}/pins")
    assert (pins(run), pins(other)) == (usual, usual)


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"charts": 7}', '{"charts": [7]}', '{"charts": ["x", null]}'])
def test_what_can_be_no_pins_is_refused_in_one_sentence(run, viewer, browser_of, body):
    answer = browser_of(viewer).post(f"/runs/{run.pk}/pins", body, "application/json")
    assert answer.status_code == 422
    assert answer.content.endswith((b".", b"}."))


@pytest.mark.parametrize("axis", ["step", "tokens", "time", "relative"])
def test_earlier_attempts_are_drawn_where_they_are_asked_for(run, start, log_metrics, viewer, browser_of, axis):
    start(run)
    log_metrics(run, 1, loss=[(step, 1.0) for step in range(1, 101)])
    placement_exited(open_placements(run)[0], exit_code=-9)
    run.refresh_from_db()
    start(run, from_step=50)
    log_metrics(run, 2, loss=[(step, 2.0) for step in range(51, 81)])
    client = browser_of(viewer)
    attempts = lambda **query: {trace["meta"].get("attempt") for trace in figure_of(client, run, x=axis, **query)}  # noqa: E731
    assert attempts() == {None}
    assert attempts(replaced="1") == {None, 1}
