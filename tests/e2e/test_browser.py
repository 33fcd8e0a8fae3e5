"""The main job as a person does it, in a real browser against the real thing."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.stack import SMALL, Stack

pytestmark = pytest.mark.browser
PATIENCE = 60_000


@pytest.fixture
def page(browser: Browser, stack: Stack) -> Iterator[Page]:
    """A page of a person who logged in; an error in its scripts fails the test."""
    context = browser.new_context(base_url=stack.url, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_default_timeout(PATIENCE)
    page.goto("/")
    page.get_by_label("Name").fill("admin")
    page.get_by_label("Password").fill(stack.password)
    page.get_by_role("button", name="Log in").click()
    yield page
    context.close()
    assert errors == []


def fill_form(page: Page, name: str, **fields: str) -> None:
    page.goto("/runs/new")
    for fold in page.locator("details > summary").all():
        fold.click()
    page.locator("#name").fill(name)
    for field, value in {**{key: str(value) for key, value in SMALL.items()}, **fields}.items():
        page.locator(f'[name="{field.replace("__", ".")}"]').fill(value)


def current_step(page: Page) -> int:
    return int(page.locator("#step").inner_text())


def test_form_to_live_chart_to_stop_to_resume_to_the_end(page: Page) -> None:
    fill_form(page, "From the form", train__steps="600")
    page.get_by_role("button", name="Start the run").click()

    state = page.locator("#state")
    expect(state).to_have_text("Running", timeout=PATIENCE)
    expect(page.locator('[data-chart="loss"] .plot .scatterlayer path.js-line').first).to_be_visible(timeout=PATIENCE)
    page.locator("#load").scroll_into_view_if_needed()
    expect(page.locator("#load .heatmaplayer image").first).to_be_visible(timeout=PATIENCE)
    before = current_step(page)
    page.wait_for_function("before => Number(document.getElementById('step').textContent) > before + 20", arg=before)

    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Yes").click()
    expect(state).to_have_text("Stopped", timeout=PATIENCE)
    stopped_at = current_step(page)
    assert 0 < stopped_at < 600
    expect(page.locator("#checkpoints .badge.verified").first).to_be_visible()

    page.get_by_role("button", name="Start again").click()
    expect(state).to_have_text("Finished", timeout=PATIENCE * 2)
    assert current_step(page) == 600
    expect(page.locator("#timeline")).to_contain_text(f"Goes on from step {stopped_at}")


def test_stop_waits_for_its_answer_while_the_page_goes_on_living(page: Page, stack: Stack) -> None:
    run = stack.start_run("thought about for long", train__steps=5000)
    page.goto(f"/runs/{run}")
    expect(page.locator("#state")).to_have_text("Running", timeout=PATIENCE)
    page.get_by_role("button", name="Stop", exact=True).click()
    before = current_step(page)
    page.wait_for_function("before => Number(document.getElementById('step').textContent) > before + 5", arg=before)
    page.get_by_role("button", name="Yes").click()
    expect(page.locator("#state")).to_have_text("Stopped", timeout=PATIENCE)


def test_wrong_value_is_refused_at_its_field_and_nothing_typed_is_lost(page: Page) -> None:
    fill_form(page, "Wrong", train__steps="many", data__sequence_length="99999")
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("alert")).to_contain_text("Not started yet")
    expect(page.locator('[id="train.steps-error"]')).to_contain_text("Write a whole number, not 'many'")
    expect(page.locator("#name")).to_have_value("Wrong")
    expect(page.locator('[name="data.sequence_length"]')).to_have_value("99999")


def test_what_users_type_is_text_and_never_markup(page: Page, stack: Stack) -> None:
    name = '<img src=x onerror="document.title=1">'
    run = stack.ask("/runs", {"name": name, "preset": "tiny-cpu", "tags": ["<b>t</b>"], "notes": "<script>1</script>"})
    stack.ask(f"/runs/{run['id']}/stop", {})
    page.goto(f"/runs/{run['id']}")
    expect(page.locator("h1")).to_have_text(name)
    expect(page.locator("main img, main script")).to_have_count(0)
    page.goto("/")
    expect(page.locator(".run-name", has_text="<img").first).to_be_visible()


def test_list_finds_runs_and_says_what_to_do_when_none_match(page: Page, stack: Stack) -> None:
    run = stack.start_run("needle in a haystack")
    stack.ask(f"/runs/{run}/stop", {})
    page.goto("/?query=needle")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto("/?query=nothing-has-this-name")
    expect(page.get_by_role("heading", name="No run matches")).to_be_visible()


@pytest.mark.parametrize("path", ["/", "/runs/new", "/runs/1", "/nodes", "/account", "/compare?runs=1"])
def test_pages_fit_a_phone(page: Page, path: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(path)
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_keyboard_leads_everywhere(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_hidden()
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("/runs/new$"))


def test_switch_of_light_and_dark_is_remembered(page: Page) -> None:
    page.goto("/")
    before = page.locator("html").get_attribute("data-theme")
    page.locator("#theme").click()
    page.reload()
    assert page.locator("html").get_attribute("data-theme") != before


def test_nothing_is_loaded_from_elsewhere(page: Page, stack: Stack) -> None:
    strangers = []
    page.on(
        "request",
        lambda request: request.url.startswith((stack.url, "data:", "blob:")) or strangers.append(request.url),
    )
    for path in ("/", "/runs/1", "/runs/new", "/api/v1/docs", "/admin/"):
        page.goto(path)
        page.wait_for_timeout(300)
    assert strangers == []
