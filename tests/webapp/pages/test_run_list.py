"""The table of runs: what a query shows, columns and order, views, and actions on many runs."""

import re

import pytest

from webapp.preferences.services import save_view


@pytest.fixture
def three(make_run, log_metrics):
    """Runs whose learning rate and loss rise together, made in another order; the last one logged nothing."""
    runs = [make_run(name, optimizer__muon_learning_rate=rate) for name, rate in
            (("middle", 0.002), ("least", 0.001), ("most", 0.003))]  # fmt: skip
    for run, loss in zip(runs, (2.0, 1.0, float("nan")), strict=True):
        log_metrics(run, 1, loss=[(1, loss)])
    return runs


def names(client, address: str) -> list[str]:
    return re.findall(r'class="run-name"[^>]*>([^<]+)<', client.get(address).content.decode())


def test_query_chooses_the_rows(operator, three, browser_of):
    assert names(browser_of(operator), "/?query=loss<1.5 or most") == ["most", "least"]


def test_wrong_query_is_explained_and_kept(operator, three, browser_of):
    page = browser_of(operator).get("/?query=stat:running").content.decode()
    assert "At character 1: there is no field stat, did you mean state" in page
    assert 'value="stat:running"' in page


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("name", "least middle most"),
        ("-name", "most middle least"),
        ("created", "middle least most"),
        ("optimizer.muon_learning_rate", "least middle most"),
        ("-optimizer.muon_learning_rate", "most middle least"),
        ("loss", "least middle most"),
        ("-loss", "middle least most"),
    ],
)
def test_table_is_sorted_by_any_column_and_what_has_no_number_comes_last(operator, three, browser_of, sort, order):
    assert names(browser_of(operator), f"/?sort={sort}") == order.split()


def test_columns_are_what_the_address_says(operator, three, browser_of):
    page = browser_of(operator).get("/?column=optimizer.muon_learning_rate&add=loss").content.decode()
    assert re.findall(r'title="Sort by ([^"]+)"', page) == [
        "name", "state", "step", "optimizer.muon_learning_rate", "loss"
    ]  # fmt: skip
    assert ">0.002<" in page


def test_pages_keep_the_query_and_the_order(operator, make_run, browser_of):
    for number in range(51):
        make_run(f"run {number:02}")
    client = browser_of(operator)
    page = client.get("/?query=run&sort=name").content.decode()
    address = re.search(r'rel="next" href="([^"]+)"', page).group(1).replace("&amp;", "&")
    assert names(client, f"/{address}") == ["run 50"]


def test_view_is_saved_shown_to_its_owner_only_and_deleted(operator, viewer, run, browser_of):
    client = browser_of(viewer)
    client.post("/views", {"name": "Mine <b>", "address": "query=owner%3Ame&sort=name"})
    assert "?query=owner%3Ame&amp;sort=name" in client.get("/").content.decode()
    assert b"Mine &lt;b&gt;" in client.get("/").content
    assert b"Mine &lt;b&gt;" not in browser_of(operator).get("/").content
    view = viewer.saved_views.get()
    browser_of(operator).post(f"/views/{view.pk}/delete")
    assert viewer.saved_views.exists()
    client.post(f"/views/{view.pk}/delete")
    assert not viewer.saved_views.exists()


def test_view_without_a_name_is_refused_with_a_sentence(operator, browser_of):
    answer = browser_of(operator).post("/views", {"name": " ", "address": ""}, follow=True)
    assert b"Give the view a name." in answer.content


def test_saved_view_leads_nowhere_else(operator, browser_of):
    save_view(operator, "away", "//evil.example/")
    answer = browser_of(operator).post("/views", {"name": "x", "address": "@evil.example"})
    assert answer["Location"] == "/?@evil.example"


def test_selected_runs_are_stopped_and_each_refusal_is_told(operator, make_run, browser_of):
    waiting, ended = make_run("waiting"), make_run("ended")
    client = browser_of(operator)
    client.post("/runs/act", {"action": "stop", "runs": [ended.pk]})
    answer = client.post("/runs/act", {"action": "stop", "runs": [waiting.pk, ended.pk]}, follow=True)
    assert b"1 run asked to stop." in answer.content
    assert f"Not possible: Run {ended.pk} is stopped".encode() in answer.content


def test_selected_runs_are_resumed(operator, make_run, browser_of):
    run = make_run()
    client = browser_of(operator)
    for action in ("stop", "resume"):
        client.post("/runs/act", {"action": action, "runs": [run.pk]})
    run.refresh_from_db()
    assert run.state == "queued"


def test_selected_runs_are_tagged_once_and_too_long_a_tag_is_refused(operator, make_run, browser_of):
    one, other = make_run("one", tags=("blue",)), make_run("other")
    client = browser_of(operator)
    client.post("/runs/act", {"action": "tag", "tag": "blue, red", "runs": [one.pk, other.pk]})
    one.refresh_from_db()
    other.refresh_from_db()
    assert (one.tags, other.tags) == (["blue", "red"], ["blue", "red"])
    answer = client.post("/runs/act", {"action": "tag", "tag": "x" * 61, "runs": [one.pk]}, follow=True)
    assert f"Not possible: Run {one.pk}".encode() in answer.content


@pytest.mark.parametrize("body", [{}, {"action": "stop"}, {"action": "delete", "runs": ["1"]}, {"runs": ["x"]}])
def test_nothing_chosen_is_said(operator, browser_of, body):
    assert b"Choose one or more runs" in browser_of(operator).post("/runs/act", body, follow=True).content


def test_address_above_a_run_leads_to_the_list_and_keeps_the_query(operator, browser_of):
    answer = browser_of(operator).get("/runs?q=state:failed")
    assert (answer.status_code, answer["Location"]) == (302, "/?q=state:failed")
