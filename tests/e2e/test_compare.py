"""Finding runs and comparing them, in a real browser on rows the test writes itself."""

from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from webapp.runs.models import Attempt

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def page(page_of, operator, make_run, log_metrics) -> Page:
    """The operator's, with four runs that differ in learning rate and loss."""
    for number in range(4):
        run = make_run(f"sweep {number}", tags=("sweep",), optimizer__muon_learning_rate=0.001 * (number + 1))
        Attempt.objects.create(run=run, number=1, from_step=0, ended_at=datetime.now(UTC))
        log_metrics(run, 1, loss=[(step, number + 1 + 1 / step) for step in range(1, 50)])
    page = page_of(operator)
    page.goto("/")
    return page


def test_runs_are_found_by_a_completed_query_chosen_and_compared(page: Page):
    page.locator("#query").press_sequentially("muon_l")
    page.locator("#query").press("Tab")
    page.locator("#query").press_sequentially("<0.0035 tag:sweep")
    page.locator("#query").press("Enter")
    expect(page.locator("tbody tr")).to_have_count(3)
    for box in page.locator("input[name=runs]").all():
        box.check()
    expect(page.locator("#num-chosen")).to_have_text("3 runs selected")
    page.get_by_role("button", name="Compare").click()
    lines = page.locator('[data-key="loss"] .scatterlayer path.js-line')
    expect(lines).to_have_count(3)

    page.get_by_label("Show sweep 1").uncheck()
    expect(lines).to_have_count(2)
    page.reload()
    expect(lines).to_have_count(2)
    page.get_by_label("Group by").select_option("tag")
    expect(page.locator('[data-key="loss"] .legendtext')).to_have_text(["sweep (2)"])


def test_dragging_along_an_axis_keeps_the_runs_that_pass_there(page: Page):
    page.locator("input[name=runs]").first.check()
    page.locator("input[name=runs]").last.check()
    page.get_by_role("button", name="Compare").click()
    parallel = page.locator("#parallel")
    expect(parallel).to_have_attribute("data-kept", "2")
    grip = page.locator(".grip").last
    grip.scroll_into_view_if_needed()
    box = grip.bounding_box()
    page.mouse.move(box["x"] + 14, box["y"] + box["height"] - 1)
    page.mouse.down()
    page.mouse.move(box["x"] + 14, box["y"] + box["height"] * 0.6)
    page.mouse.up()
    expect(parallel).to_have_attribute("data-kept", "1")
    grip.click()
    expect(parallel).to_have_attribute("data-kept", "2")
