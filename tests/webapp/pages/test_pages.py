"""What pages show, in each state a run can be in, and what they cost."""

import re
from datetime import UTC, datetime

import pytest

from webapp.runs.models import RunState
from webapp.runs.services import placement_exited, record_progress
from workers import scheduler


@pytest.mark.parametrize("state", RunState.values)
def test_run_page_opens_in_every_state(operator, run, browser_of, state):
    type(run).objects.filter(pk=run.pk).update(state=state, ended_at=datetime.now(UTC))
    assert browser_of(operator).get(f"/runs/{run.pk}").status_code == 200


def test_buttons_follow_the_state(operator, run, start, browser_of):
    page = lambda: browser_of(operator).get(f"/runs/{run.pk}").content  # noqa: E731
    start(run)
    assert b'id="stop"' in page()
    assert b'id="resume"' not in page()
    type(run).objects.filter(pk=run.pk).update(state=RunState.FAILED)
    assert b'id="stop"' not in page()
    assert b'id="resume"' in page()


def test_viewer_sees_no_buttons(viewer, run, browser_of):
    page = browser_of(viewer).get(f"/runs/{run.pk}").content
    assert b'id="stop"' not in page
    assert b"New run" not in browser_of(viewer).get("/").content


def test_empty_list_says_what_to_do_next(operator, browser_of):
    assert b"Start the first run" in browser_of(operator).get("/").content


def test_list_costs_the_same_for_one_run_and_for_fifty(
    operator, make_run, browser_of, django_assert_max_num_queries, start, log_metrics
):
    run = make_run("measured")
    start(run)
    log_metrics(run, 1, loss=[(1, 2.0)])
    type(run).objects.update(state=RunState.FINISHED)
    type(run).objects.bulk_create(
        [type(run)(name=f"r{n}", owner=operator, preset="tiny-cpu", config=run.config, state=RunState.STOPPED,
                   queued_at=datetime.now(UTC)) for n in range(60)]
    )  # fmt: skip
    client = browser_of(operator)
    with django_assert_max_num_queries(8):
        client.get("/")


def test_run_page_costs_few_queries(operator, run, start, log_metrics, browser_of, django_assert_max_num_queries):
    start(run)
    log_metrics(run, 1, loss=[(1, 2.0)])
    client = browser_of(operator)
    with django_assert_max_num_queries(14):
        client.get(f"/runs/{run.pk}")


@pytest.mark.parametrize(
    "query",
    [
        "page=0",
        "page=x",
        "page=99999999999",
        "sort=<x>",
        "sort=-",
        "query=%00",
        "query=%23",
        "column=",
        "column=%00",
        "sort=train.seed",
        "sort=-loss",
        "query=(",
        "add=,loss",
    ],
)
def test_odd_queries_give_a_page(operator, run, browser_of, query):
    assert browser_of(operator).get(f"/?{query}").status_code == 200


@pytest.mark.parametrize("path", ["/runs/999999999999999999999999", "/runs/7777", "/nowhere", "/runs/7777/charts"])
def test_what_is_not_there_is_said_kindly(operator, browser_of, path):
    answer = browser_of(operator).get(path)
    assert answer.status_code == 404
    assert b"There is nothing here" in answer.content


def test_pages_allow_no_script_from_elsewhere(operator, browser_of):
    answer = browser_of(operator).get("/")
    assert "default-src 'self'" in answer["Content-Security-Policy"]
    assert not re.search(rb"<script(?![^>]*\bsrc=)", answer.content)


def test_charts_are_strict_json_whatever_was_measured(operator, run, start, log_metrics, browser_of):
    start(run)
    log_metrics(run, 1, loss=[(1, float("nan")), (2, float("inf"))])
    answer = browser_of(operator).get(f"/runs/{run.pk}/charts?ids=loss&ids=unknown&smoothing=0.9&x=tokens")
    assert b"NaN" not in answer.content.replace(b'"NaN"', b"")
    assert set(answer.json()["figures"]) == {"loss", "unknown"}


def test_new_run_is_queued_by_the_form(operator, browser_of):
    answer = browser_of(operator).post("/runs/new", {"preset": "tiny-cpu", "name": "by form", "submitted": "1",
                                                     "train.steps": "5", "tags": "a, b"})  # fmt: skip
    assert answer.status_code == 302
    from webapp.runs.models import Run

    run = Run.objects.get()
    assert (run.name, run.tags, run.total_steps) == ("by form", ["a", "b"], 5)


def test_run_without_a_name_is_refused_at_the_name(operator, browser_of):
    answer = browser_of(operator).post("/runs/new", {"preset": "tiny-cpu", "name": " ", "submitted": "1"})
    assert answer.status_code == 422
    assert b"Give the run a name" in answer.content


def test_run_like_another_starts_from_its_config(operator, make_run, browser_of):
    run = make_run("first", train__steps=77)
    page = browser_of(operator).get(f"/runs/new?like={run.pk}").content.decode()
    assert 'value="77"' in page
    assert "first again" in page


def test_token_is_shown_once_and_can_be_revoked(operator, browser_of):
    client = browser_of(operator)
    text = re.search(r'class="token">(\S+)<', client.post("/account/tokens", {"name": "t"}).content.decode()).group(1)
    assert text not in client.get("/account").content.decode()
    client.post(f"/account/tokens/{operator.tokens.get().pk}/revoke")
    assert not operator.tokens.exists()


def test_nobody_revokes_the_token_of_another(operator, viewer, browser_of):
    from webapp.accounts.services import create_token

    token, _ = create_token(user=operator, name="t")
    browser_of(viewer).post(f"/account/tokens/{token.pk}/revoke")
    assert operator.tokens.exists()


def test_log_download_has_every_line(operator, run, start, browser_of):
    from webapp.metrics import services

    attempt = start(run)
    batch = services.Batch()
    for number in range(3):
        batch.add_line(attempt.number, "output", datetime.now(UTC), "info", f"line {number}")
    services.store(run, batch)
    answer = browser_of(operator).get(f"/runs/{run.pk}/log.txt")
    assert answer.getvalue().decode().count("line ") == 3


def test_a_run_is_deleted_by_its_name_alone(run, operator, browser_of):
    client = browser_of(operator)
    client.post(f"/runs/{run.pk}/stop")
    wrong = client.post(f"/runs/{run.pk}/delete", {"name": "another"})
    assert (wrong.status_code, "Type the run" in wrong.content.decode()) == (422, True)
    done = client.post(f"/runs/{run.pk}/delete", {"name": run.name}, follow=True)
    assert "is deleted" in done.content.decode()


def test_a_running_run_is_not_deleted(run, start, operator, browser_of):
    start(run)
    answer = browser_of(operator).post(f"/runs/{run.pk}/delete", {"name": run.name})
    assert (answer.status_code, "stop it before" in answer.content.decode()) == (409, True)


@pytest.mark.parametrize(("kind", "status"), [("csv", 200), ("json", 200), ("parquet", 200), ("xls", 404)])
def test_points_are_downloaded_in_known_formats(run, viewer, browser_of, kind, status):
    assert browser_of(viewer).get(f"/runs/{run.pk}/export/{kind}").status_code == status


def test_gateway_shows_every_run_it_holds_and_how_many_it_may(operator, make_run, make_node, browser_of):
    runs = [make_run(), make_run(parallel__nodes=4)]
    make_node("slurm", slots=3)
    scheduler.look()
    page = browser_of(operator).get("/nodes").content.decode()
    assert "gateway, 2 of 3 runs" in page
    assert all(f"run #{run.pk}</a>" in page for run in runs)


def test_table_of_attempts_says_of_each_where_it_ran_what_it_did_and_how_it_ended(run, start, viewer, browser_of):
    first = start(run)
    record_progress(run, first, [(1, datetime.now(UTC)), (100, datetime.now(UTC))])
    placement_exited(first.placements.get(), exit_code=-9)
    start(run, from_step=60)
    page = browser_of(viewer).get(f"/runs/{run.pk}/parts/attempts").content.decode()
    running, killed = (
        " ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in re.findall(r"(?s)<tr id.*?</tr>", page)
    )
    assert running.startswith("2 60 → now Running")
    assert "so far test-node 0" in running
    assert killed.startswith("1 0 → 100 Killed The trainer was killed by signal 9 without a word.")
    assert "test-node 40" in killed


def test_a_thousand_attempts_cost_the_page_no_more_than_fifty(run, node, viewer, browser_of, django_assert_num_queries):
    ended = {"created_at": datetime.now(UTC), "ended_at": datetime.now(UTC)}
    made = run.attempts.bulk_create(run.attempts.model(run=run, number=n, **ended) for n in range(1, 1001))
    made[0].placements.model.objects.bulk_create(
        made[0].placements.model(attempt=attempt, node=node, rank=0, ended_at=datetime.now(UTC)) for attempt in made
    )
    client = browser_of(viewer)
    with django_assert_num_queries(6):
        page = client.get(f"/runs/{run.pk}/parts/attempts").content.decode()
    assert page.count("<tr id=") == 50
    assert "950 earlier ones" in page


def test_timeline_is_filtered_by_the_address_and_leads_to_earlier_events(run, viewer, browser_of):
    run.events.model.objects.bulk_create(
        run.events.model(run=run, name="nan", text=f"No number {n}.", time=datetime.now(UTC), attempt=n % 2, step=7)
        for n in range(250)
    )
    client = browser_of(viewer)
    page = client.get(f"/runs/{run.pk}?kind=incidents&attempt=1").content.decode()
    texts = lambda page: re.findall(r"No number (\d+)", page)  # noqa: E731
    assert texts(page) == [str(n) for n in range(249, 50, -2)]
    earlier = re.search(r'href="(\?[^"]*before=[^"#]*)', page)[1].replace("&amp;", "&")
    assert texts(client.get(f"/runs/{run.pk}/parts/timeline{earlier}").content.decode())[-1] == "1"
    assert '<span class="spoken">error: </span>' in page


@pytest.mark.parametrize(
    "query", ["kind=x&attempt=-1&before=x", "attempt=99999999999999999999", "before=0", "kind=%00"]
)
def test_timeline_opens_at_any_address(run, viewer, browser_of, query):
    assert browser_of(viewer).get(f"/runs/{run.pk}?{query}").status_code == 200
