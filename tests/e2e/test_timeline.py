"""The timeline in a real browser: filtered without the page, paged, kept while the run goes on, a way to the charts."""

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from webapp import messages

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_timeline_is_filtered_paged_and_kept_while_the_run_goes_on(run, start, page_of, operator, log_metrics):
    start(run)
    log_metrics(run, 1, loss=[(step, 5 / step) for step in range(1, 401)])
    happen = lambda name, **more: run.events.create(name=name, time=timezone.now(), text=f"{name}.", **more)  # noqa: E731
    for _ in range(120):
        happen("nan", attempt=1, step=200)
    page = page_of(operator)
    page.goto(f"/runs/{run.pk}")
    shown = page.locator("#timeline .timeline li")
    expect(shown).to_have_count(100)
    page.locator("#timeline").get_by_role("link", name="Earlier").click()
    expect(shown).to_have_count(23)
    page.locator("#timeline").get_by_role("link", name="states").click()
    expect(shown).to_have_count(3)
    happen("nan", attempt=1)
    happen("finished", attempt=1)
    messages.publish(run.pk, {"events"})
    expect(shown).to_have_count(4)
    assert page.url.endswith("?kind=states#timeline")
    page.locator("#attempt-1").get_by_role("link").click()
    expect(page.locator("#timeline").get_by_role("link", name="attempt 1")).to_be_visible()
    page.locator("#timeline").get_by_role("link", name="incidents").click()
    with page.expect_response(lambda answer: "from=180" in answer.url):
        shown.nth(5).get_by_role("link", name="step 200").click()
