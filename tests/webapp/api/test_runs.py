"""Runs over REST: create, list, show, stop, resume; and what is refused, with which sentence."""

import json
from datetime import UTC, datetime

import pytest

from webapp.runs.models import Run


@pytest.fixture
def ask(operator, client):
    """Ask the API as an operator's script; returns status and JSON, which any parser must be able to read."""
    from webapp.accounts.services import create_token

    _, token = create_token(user=operator, name="script")

    def send(method: str, path: str, body=None):
        data = body if isinstance(body, str) else json.dumps(body or {})
        answer = client.generic(
            method, f"/api/v1{path}", data, content_type="application/json",
            headers={"Authorization": f"Bearer {token}"},
        )  # fmt: skip
        return answer.status_code, json.loads(answer.content, parse_constant=pytest.fail)

    return send


def test_preset_with_overrides_becomes_a_queued_run(ask):
    status, made = ask("POST", "/runs", {"name": "a", "preset": "tiny-cpu", "overrides": {"train.steps": 7}})
    assert (status, made["state"], made["total_steps"]) == (201, "queued", 7)


def test_whole_config_becomes_a_run_too(ask):
    _, presets = ask("GET", "/presets")
    status, made = ask("POST", "/runs", {"name": "a", "config": presets[0]["config"]})
    assert (status, made.get("state"), made) == (201, "queued", made)


@pytest.mark.parametrize(
    ("body", "path", "word"),
    [
        ({"preset": "tiny-cpu"}, "name", "required"),
        ({"name": "a"}, "preset", "either a preset"),
        ({"name": "a", "preset": "huge"}, "preset", "choose one of"),
        ({"name": "a", "preset": "tiny-cpu", "overrides": {"train.stepps": 1}}, "train.stepps", "did you mean"),
        ({"name": "a", "preset": "tiny-cpu", "overrides": {"train.steps": "x"}}, "train.steps", "integer"),
        ({"name": "a", "preset": "tiny-cpu", "overrides": {"train.steps": -1}}, "train.steps", "greater"),
        ({"name": "a", "preset": "tiny-cpu", "overrides": {"train": {"steps": 1}}}, "train", "no such field"),
        ({"name": "a", "preset": "tiny-cpu", "overrides": []}, "overrides", "dictionary"),
        ({"name": "a", "preset": "tiny-cpu", "colour": "red"}, "colour", "not permitted"),
        ({"name": "x" * 201, "preset": "tiny-cpu"}, "name", "at most"),
        ({"name": "a", "preset": "tiny-cpu", "priority": 9}, "priority", "-1, 0 or 1"),
    ],
)  # fmt: skip
def test_wrong_body_is_refused_at_its_field(ask, body, path, word):
    status, answer = ask("POST", "/runs", body)
    assert status == 422
    assert path in [problem["path"].removeprefix("body.") for problem in answer["problems"]]
    assert word in answer["detail"]
    assert not Run.objects.exists()


def test_malformed_json_is_refused_with_a_sentence(ask):
    status, answer = ask("POST", "/runs", "{nope")
    assert status == 400
    assert answer["detail"]


def test_list_goes_page_by_page_without_gaps_or_repeats(ask, make_run):
    wanted = [make_run(f"run {number}").pk for number in range(7)][::-1]
    seen, cursor = [], ""
    while cursor is not None:
        _, page = ask("GET", f"/runs?limit=3&cursor={cursor}")
        seen += [item["id"] for item in page["items"]]
        cursor = page["next"]
    assert seen == wanted


def test_list_is_found_by_a_query_page_by_page(ask, make_run):
    wanted = [make_run(f"run {steps}", train__steps=steps).pk for steps in (100, 200, 300)]
    _, first = ask("GET", "/runs?query=train.steps>=200%20owner:me&limit=1")
    _, second = ask("GET", f"/runs?query=train.steps>=200%20owner:me&limit=1&cursor={first['next']}")
    assert [item["id"] for item in first["items"] + second["items"]] == wanted[:0:-1]
    assert second["next"] is None


def test_wrong_query_is_refused_at_its_place(ask):
    status, answer = ask("GET", "/runs?query=(loss")
    assert (status, answer["problems"][0]["path"]) == (422, "query")
    assert "At character 1: this ( is never closed" in answer["detail"]


def test_list_is_filtered_by_state_search_and_tag(ask, make_run):
    wanted = make_run("needle", tags=("blue",))
    make_run("hay")
    for query in ("search=needle", "tag=blue", f"search=%23{wanted.pk}", "search=needle&state=queued"):
        _, page = ask("GET", f"/runs?{query}")
        assert [item["id"] for item in page["items"]] == [wanted.pk]


@pytest.mark.parametrize("cursor", ["x", "%FF", "bm90IGEgbnVtYmVy"])
def test_wrong_cursor_is_refused(ask, cursor):
    assert ask("GET", f"/runs?cursor={cursor}")[0] == 400


def test_run_is_stopped_once_and_resumed(ask, run):
    assert ask("POST", f"/runs/{run.pk}/stop")[1]["state"] == "stopped"
    status, answer = ask("POST", f"/runs/{run.pk}/stop")
    assert (status, answer["detail"]) == (
        409, f"Run {run.pk} is stopped; only a starting or running run can do this."
    )  # fmt: skip
    assert ask("POST", f"/runs/{run.pk}/resume")[1]["state"] == "queued"
    assert ask("POST", f"/runs/{run.pk}/resume")[0] == 409


@pytest.mark.parametrize("number", ["999999", "99999999999999999999999"])
def test_unknown_run_is_not_found(ask, number):
    status, answer = ask("GET", f"/runs/{number}")
    assert status == 404
    assert number in answer["detail"]


def test_series_hold_words_for_what_is_no_number(ask, run, start, log_metrics):
    start(run)
    log_metrics(run, 1, loss=[(1, 2.0), (2, float("nan")), (3, float("inf")), (4, float("-inf"))])
    _, answer = ask("GET", f"/runs/{run.pk}/metrics?keys=loss,nothing")
    assert answer["series"][0]["values"] == [2.0, "NaN", "Infinity", "-Infinity"]
    assert answer["series"][1]["steps"] == []
    assert ask("GET", f"/runs/{run.pk}/metrics/keys")[1] == {"keys": ["loss"]}


@pytest.mark.parametrize("query", ["keys=", "keys=" + ",".join(map(str, range(101))), "", "keys=loss&max_points=x"])
def test_wrong_question_for_series_is_refused(ask, run, query):
    status, answer = ask("GET", f"/runs/{run.pk}/metrics?{query}")
    assert status in (400, 422)
    assert answer["detail"]


@pytest.mark.parametrize("max_points", [-5, 0, 1, 10**18])
def test_absurd_numbers_of_points_are_bounded(ask, run, start, log_metrics, max_points):
    start(run)
    log_metrics(run, 1, loss=[(step, 1.0) for step in range(100)])
    status, answer = ask("GET", f"/runs/{run.pk}/metrics?keys=loss&max_points={max_points}")
    assert status == 200
    assert 1 <= len(answer["series"][0]["steps"]) <= 100


def test_router_load_before_the_first_record_is_not_found(ask, run):
    assert ask("GET", f"/runs/{run.pk}/router")[0] == 404


def test_schema_explains_every_field(ask):
    _, schema = ask("GET", "/schema")
    for section in ("ModelConfig", "TrainConfig", "DataConfig"):
        assert all(field.get("description") for field in schema["$defs"][section]["properties"].values())


def test_api_describes_itself(client, operator, ask):
    _, document = ask("GET", "/openapi.json")
    assert "/api/v1/runs/{run_id}/stop" in document["paths"]


@pytest.fixture
def checkpoint(run):
    from webapp.checkpoints.services import record_checkpoint

    record_checkpoint(run, {"status": "verified", "step": 5, "attempt": 1, "time": datetime.now(UTC)})


def test_a_fork_begins_with_a_checkpoint_and_changes_what_it_says(ask, run, checkpoint):
    body = {"name": "b", "step": 5, "overrides": {"train.steps": 9}}
    status, made = ask("POST", f"/runs/{run.pk}/fork", body)
    assert (status, made["parent"], made["parent_step"], made["total_steps"]) == (201, run.pk, 5, 9)


def test_a_fork_of_another_shape_is_refused_at_its_field(ask, run, checkpoint):
    body = {"name": "b", "step": 5, "overrides": {"model.num_experts": 4}}
    status, said = ask("POST", f"/runs/{run.pk}/fork", body)
    assert (status, said["problems"][0]["path"]) == (422, "model.num_experts")


def test_resuming_from_a_checkpoint_that_is_not_there_is_refused_with_a_sentence(ask, run):
    ask("POST", f"/runs/{run.pk}/stop")
    status, said = ask("POST", f"/runs/{run.pk}/resume?step=4")
    assert (status, "no whole checkpoint of step 4" in said["detail"]) == (409, True)


def test_attempts_are_listed_with_what_they_held_and_lost(ask, run, start):
    from webapp.runs.services import placement_exited, record_progress

    first = start(run)
    record_progress(run, first, [(1, datetime.now(UTC)), (100, datetime.now(UTC))])
    placement_exited(first.placements.get(), exit_code=-9)
    start(run, from_step=60)
    _, found = ask("GET", f"/runs/{run.pk}/attempts")
    assert [(each["from_step"], each["lost_steps"], each["outcome"]) for each in found["items"]] == [
        (0, 40, "killed"), (60, 0, ""),
    ]  # fmt: skip
    assert found["items"][0]["nodes"] == ["test-node"]


def test_series_are_those_that_count_or_all_of_one_attempt(ask, run, start, log_metrics):
    from webapp.runs.services import open_placements, placement_exited

    start(run)
    log_metrics(run, 1, loss=[(1, 1.0), (2, 1.0), (3, 1.0)])
    placement_exited(open_placements(run)[0], exit_code=-9)
    run.refresh_from_db()
    start(run, from_step=1)
    log_metrics(run, 2, loss=[(2, 2.0)])
    values = lambda more="": ask("GET", f"/runs/{run.pk}/metrics?keys=loss{more}")[1]["series"][0]["values"]  # noqa: E731
    assert (values(), values("&attempt=1"), values("&attempt=2")) == ([1.0, 2.0], [1.0, 1.0, 1.0], [2.0])
    status, answer = ask("GET", f"/runs/{run.pk}/metrics?keys=loss&attempt=99999999999999999999")
    assert (status, "no attempt" in answer["detail"]) == (404, True)


def test_events_come_by_kind_attempt_and_page(ask, run):
    for number in range(5):
        run.events.create(name="nan", time=datetime.now(UTC), attempt=number % 2)
    _, first = ask("GET", f"/runs/{run.pk}/events?kind=incidents&limit=2&attempt=0")
    _, second = ask("GET", f"/runs/{run.pk}/events?kind=incidents&limit=2&attempt=0&before={first['next']}")
    assert [len(page["items"]) for page in (first, second)] == [2, 1]
    assert (second["next"], second["items"][0]["gravity"]) == (None, "error")
    status, answer = ask("GET", f"/runs/{run.pk}/events?kind=x")
    assert (status, "incidents, checkpoints, states, people" in answer["detail"]) == (400, True)
