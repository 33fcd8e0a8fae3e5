"""Charts in a real browser: found, pinned, moved, zoomed, read as numbers, and never drawn where nobody looks."""

import math
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from tests.stack import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def open_run(run, start, log_metrics, page_of, operator):
    """A page of a run with a loss of 400 steps and these other series."""

    def open_with(**series: list[tuple[int, float]]) -> Page:
        start(run)
        log_metrics(run, 1, loss=[(step, 5 / step) for step in range(1, 401)], **series)
        page = page_of(operator)
        page.goto(f"/runs/{run.pk}")
        expect(line_of(page, "loss").first).to_be_visible()
        return page

    return open_with


def line_of(page: Page, chart: str):
    return page.locator(f'[data-chart="{chart}"] .plot .scatterlayer path.js-line')


def focus_on(page: Page, chart: str) -> None:
    """As a person does: look at the chart, then choose it."""
    card = page.locator(f'[data-chart="{chart}"]')
    card.scroll_into_view_if_needed()
    expect(card.locator(".main-svg").first).to_be_visible()
    card.focus()


def pinned(page: Page) -> list[str]:
    return page.locator('[data-group="Pinned"] .chart').evaluate_all("cards => cards.map((card) => card.dataset.chart)")


def range_of(page: Page, chart: str) -> list[float]:
    return page.evaluate(f"document.querySelector('[data-chart={chart}] .plot')._fullLayout.xaxis.range")


def drag_over(page: Page, chart: str, first: float, last: float) -> None:
    box = page.locator(f"[data-chart={chart}] .plot .nsewdrag").bounding_box()
    at = lambda share: (box["x"] + share * box["width"], box["y"] + box["height"] / 2)  # noqa: E731
    page.mouse.move(*at(first))
    page.mouse.down()
    page.mouse.move(*at(last), steps=4)
    page.mouse.up()


def test_three_thousand_keys_open_with_few_cards_filled(open_run, run):
    from webapp.metrics.models import Series

    Series.objects.bulk_create(Series(run=run, key=f"many/{number}") for number in range(3000))
    page = open_run()
    page.locator('[data-group="many"] summary').click()
    expect(page.locator("#chart-board .chart")).to_have_count(3008)
    assert page.locator("#chart-board .chart header").count() < 40


def test_search_finds_a_chart_by_a_part_of_its_key(open_run):
    page = open_run(debug__layer2__norm=[(1, 1.0)], debug__layer10__norm=[(1, 1.0)])
    page.get_by_label("Find charts").fill("layer10 norm")
    expect(page.locator("#chart-board .chart")).to_have_count(1)
    expect(page.locator("#chart-board .chart h3")).to_have_text("debug/layer10/norm")
    page.get_by_label("Find charts").fill("nothing has this")
    expect(page.get_by_text("No chart has these words")).to_be_visible()


def test_pins_and_their_order_outlive_the_page(open_run):
    page = open_run(extra=[(1, 1.0)])
    focus_on(page, "extra")
    page.keyboard.press("p")
    with page.expect_response("**/pins"):
        page.keyboard.press("Shift+ArrowLeft")
    page.reload()
    expect(page.locator('[data-group="Pinned"] [data-chart="extra"]')).to_be_attached()
    assert pinned(page)[-2:] == ["extra", "rates"]


def test_dragging_a_header_moves_a_pinned_chart(open_run):
    page = open_run()
    page.locator("[data-chart=grad_norm] header h3").drag_to(page.locator("[data-chart=loss] header h3"))
    assert pinned(page)[:2] == ["grad_norm", "loss"]


def test_zoom_of_one_chart_is_every_charts_and_goes_deeper(open_run):
    page = open_run(mfu=[(step, 0.3) for step in range(1, 401)])
    before = range_of(page, "loss")
    with page.expect_response(lambda answer: "from=" in answer.url):
        drag_over(page, "loss", 0.2, 0.4)
    wait_for(lambda: range_of(page, "mfu")[1] < 200, "the other chart to follow")
    page.locator("[data-chart=mfu] .plot .nsewdrag").dblclick()
    wait_for(lambda: range_of(page, "loss")[1] > 399, "all steps to be shown again")
    assert range_of(page, "loss") == before


def test_cross_hair_is_on_every_other_chart(open_run):
    page = open_run(mfu=[(step, 0.3) for step in range(1, 401)])
    page.locator("[data-chart=loss] .plot .nsewdrag").hover()
    expect(page.locator("[data-chart=mfu] .hair")).to_be_visible()
    expect(page.locator("[data-chart=loss] .hair")).to_be_hidden()


def test_logarithmic_axis_stands_the_smallest_numbers_and_says_what_it_cannot_show(open_run):
    page = open_run(odd=[(1, 1e-300), (2, 0.0), (3, -1.0), (4, 1e300)])
    focus_on(page, "odd")
    page.keyboard.press("l")
    expect(page.locator('[data-chart="odd"] .remark')).to_have_text("2 values ≤ 0 not shown on a logarithmic axis")
    expect(line_of(page, "odd").first).to_be_attached()


def test_values_are_a_table_with_nan_in_words(open_run):
    page = open_run(broken=[(1, 1.5), (2, math.nan), (3, -math.inf)])
    focus_on(page, "broken")
    page.keyboard.press("v")
    rows = page.locator('[data-chart="broken"] tbody tr')
    assert [row.locator("td").nth(2).inner_text() for row in rows.all()] == ["1.5", "NaN", "−∞"]


def test_csv_holds_raw_values_and_no_formula(open_run):
    page = open_run(**{"=cmd()": [(1, 0.25), (2, 0.5)]})
    focus_on(page, "=cmd()")
    with page.expect_download() as download:
        page.keyboard.press("e")
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines == ["x,series,value,least,greatest", '1,"\'=cmd()",0.25,0.25,0.25', '2,"\'=cmd()",0.5,0.5,0.5']


def test_picture_is_downloaded_by_a_key(open_run):
    page = open_run()
    focus_on(page, "loss")
    with page.expect_download() as download:
        page.keyboard.press("s")
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_full_screen_by_a_key_and_back_by_escape(open_run):
    page = open_run()
    card = page.locator("[data-chart=loss]")
    card.focus()
    page.keyboard.press("f")
    assert card.bounding_box()["width"] > 1200
    page.keyboard.press("Escape")
    assert card.bounding_box()["width"] < 600


def test_arrows_go_from_chart_to_chart(open_run):
    page = open_run()
    focus_on(page, "loss")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-chart=throughput]")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("[data-chart=entropy]")).to_be_focused()


def test_line_is_summed_up_in_words(open_run):
    page = open_run()
    expect(page.get_by_role("img", name="Loss. train: 0.0125 at 400, between 0.0125 and")).to_be_visible()


def test_incident_is_a_line_that_can_be_switched_off(open_run, run):
    from django.utils import timezone

    run.events.create(step=200, time=timezone.now(), name="nan", text="<b>The loss is NaN.</b>")
    page = open_run()
    mark = page.locator("[data-chart=loss] .annotation")
    expect(mark).to_have_count(1)
    page.get_by_label("events").uncheck()
    expect(mark).to_have_count(0)


def test_earlier_attempts_are_shown_on_wish_named_in_the_table_and_remembered(open_run, run, start, log_metrics):
    from webapp.runs.services import open_placements, placement_exited, record_progress

    page = open_run()
    record_progress(run, run.attempts.get(), [(1, timezone.now()), (400, timezone.now())])
    expect(page.get_by_label("earlier attempts")).to_be_hidden()
    placement_exited(open_placements(run)[0], exit_code=-9)
    run.refresh_from_db()
    start(run, from_step=300)
    log_metrics(run, 2, loss=[(301, 1.0), (302, 1.0)])
    page.reload()
    expect(line_of(page, "loss")).to_have_count(2)  # smoothed, and raw behind it
    page.get_by_label("earlier attempts").check()
    expect(line_of(page, "loss")).to_have_count(4)
    focus_on(page, "loss")
    page.keyboard.press("v")
    expect(page.locator('[data-chart="loss"] tbody tr', has_text="train, attempt 1").first).to_be_visible()
    page.reload()
    expect(line_of(page, "loss")).to_have_count(4)
