"""The buttons of a checkpoint: start again from it, or fork it with changes that are shown."""

from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from webapp.checkpoints.services import record_checkpoint
from webapp.runs import states
from webapp.runs.models import Run


@pytest.fixture
def ended(run):
    states.move(run, "cancel", "")
    record_checkpoint(run, {"status": "verified", "step": 250, "attempt": 1, "time": datetime.now(UTC)})
    return run


@pytest.fixture
def client(operator, browser_of):
    return browser_of(operator)


def typed(page: str) -> dict[str, str]:
    """What the form would send as it is, by its inputs and selects."""

    class Form(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.values, self.select, self.is_chosen = {}, "", False

        def handle_starttag(self, tag, attributes):
            given = dict(attributes)
            if tag == "input" and "name" in given and (given.get("type") != "checkbox" or "checked" in given):
                self.values[given["name"]] = given.get("value", "on")
            if tag in ("select", "textarea"):
                self.select = given.get("name", "")
            self.is_chosen = tag == "option" and "selected" in given
            if self.is_chosen and "value" in given:
                self.values[self.select] = given["value"]

        def handle_data(self, data):
            if self.is_chosen:
                self.values.setdefault(self.select, data)

    form = Form()
    form.feed(page)
    return form.values


def test_the_table_offers_both_to_operators_and_neither_to_viewers(ended, client, viewer, browser_of):
    page = client.get(f"/runs/{ended.pk}").content.decode()
    assert f"/runs/{ended.pk}/resume/250" in page
    assert f"/runs/{ended.pk}/fork/250" in page
    assert f"/runs/{ended.pk}/fork/250" not in browser_of(viewer).get(f"/runs/{ended.pk}").content.decode()


def test_start_again_from_a_checkpoint(ended, client):
    client.post(f"/runs/{ended.pk}/resume/250")
    ended.refresh_from_db()
    assert (ended.state, ended.resume_step) == ("queued", 250)


def test_a_fork_shows_what_changes_and_queues_it(ended, client):
    form = typed(client.get(f"/runs/{ended.pk}/fork/250").content.decode())
    assert form["name"] == "a run from 250"
    form["optimizer.muon_learning_rate"] = "0.001"
    plan = client.post("/runs/new/plan", form).content.decode()
    assert "optimizer.muon_learning_rate" in plan
    assert "<b>0.001</b>" in plan
    answer = client.post(f"/runs/{ended.pk}/fork/250", form)
    fork = Run.objects.first()
    assert answer["Location"] == f"/runs/{fork.pk}"
    assert (fork.parent, fork.config["optimizer"]["muon_learning_rate"]) == (ended, 0.001)
    assert "from step 250 of <a" in client.get(f"/runs/{fork.pk}").content.decode()


def test_a_shape_that_does_not_fit_is_told_at_its_field(ended, client):
    form = typed(client.get(f"/runs/{ended.pk}/fork/250").content.decode())
    answer = client.post(f"/runs/{ended.pk}/fork/250", {**form, "model.num_experts": "16"})
    assert answer.status_code == 422
    assert "Must stay 8" in answer.content.decode()


def test_a_checkpoint_that_is_gone_leads_back_with_a_sentence(ended, client):
    answer = client.get(f"/runs/{ended.pk}/fork/7", follow=True)
    assert "has no whole checkpoint of step 7" in answer.content.decode()
