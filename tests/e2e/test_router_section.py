"""The router's section in a real browser: the worst layer, its table, the alarm."""

from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from webapp.messages import publish

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def page(run, start, log_router, page_of, operator):
    start(run)
    log_router(run, {10: [[384, 384] * 4, [0, 768] * 4, [384, 384] * 4, [192, 576] * 4]})
    page = page_of(operator)
    page.goto(f"/runs/{run.pk}")
    page.locator("#router").scroll_into_view_if_needed()
    expect(page.locator("#balance tbody tr")).to_have_count(4)
    return page


def layers(page) -> list[str]:
    return page.locator("#balance tbody tr td:first-child").all_inner_texts()


def test_worst_layer_comes_first_and_any_column_sorts(page):
    assert layers(page) == ["1", "3", "0", "2"]
    page.get_by_role("button", name="Layer", exact=True).click()
    assert layers(page) == ["0", "1", "2", "3"]
    assert page.locator("#balance th").first.get_attribute("aria-sort") == "ascending"


def test_chosen_layer_is_shown_over_time(page):
    page.locator("#balance").get_by_role("button", name="3", exact=True).click()
    expect(page.locator("#layer-number")).to_have_text("3")
    expect(page.locator("#router-layer")).to_have_value("3")


def test_measure_of_balance_can_be_chosen(page):
    page.get_by_label("Measure of balance").select_option("bias_spread")
    expect(page.locator("#measure-unit")).to_have_text("greatest − least balancing bias")
    expect(page.locator("#balance-history .heatmaplayer image")).to_be_visible()


def test_expert_that_dies_raises_an_alarm_on_the_open_page(page, run):
    expect(page.locator("#expert-alert")).to_be_hidden()
    data = {"experts": [[1, 0]]}
    run.events.create(step=12, time=datetime.now(UTC), name="expert_died", text="No token: expert 0.", data=data)
    publish(run.pk, {"events"})
    expect(page.get_by_role("alert")).to_have_text("Since step 12: No token: expert 0.")


def test_router_out_of_view_is_not_asked_about(run, start, log_router, log_metrics, page_of, operator):
    start(run)
    log_router(run, {10: [[384, 384] * 4] * 4})
    log_metrics(run, 1, loss=[(1, 2.0), (2, 1.0)])
    page = page_of(operator)
    page.set_viewport_size({"width": 1280, "height": 400})
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"/runs/{run.pk}")
    expect(page.locator('[data-chart="loss"] path.js-line').first).to_be_visible()
    publish(run.pk, {"metrics", "router"})
    with page.expect_response(lambda answer: "/charts?" in answer.url):
        publish(run.pk, {"metrics", "router"})
    assert not [url for url in asked if f"/runs/{run.pk}/router" in url]
