"""A real browser, and the web process alone on the tests' database, for pages whose rows a test writes itself."""

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from psycopg.conninfo import make_conninfo

from tests.browser import find_browser
from tests.stack import free_port, wait_for


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None and not os.environ.get("CI"):
        pytest.skip("no Chromium is installed: `python -m tests.packages` installs one")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        # Playwright keeps a loop in this thread, which Django takes for a reason to refuse the test's own queries.
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
        yield browser
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
        browser.close()


@pytest.fixture(scope="session")
def web(django_db_setup: None, embedded_servers: None) -> Iterator[str]:
    """The URL of uvicorn on the tests' database and broker."""
    from django.conf import settings
    from django.core.management import call_command

    call_command("collectstatic", interactive=False, verbosity=0)
    database = settings.DATABASES["default"]
    address = make_conninfo(dbname=database["NAME"], user=database["USER"], host=database["HOST"])
    url = f"http://127.0.0.1:{(port := free_port())}"
    environment = {**os.environ, "DATABASE_URL": address}
    command = [sys.executable, "-m", "uvicorn", "webapp.asgi:application", "--port", str(port), "--log-level", "error"]
    process = subprocess.Popen(command, env=environment)
    wait_for(lambda: _answers(f"{url}/login"), "the web process")
    yield url
    process.terminate()
    process.wait(30)


@pytest.fixture
def page_of(browser: Browser, web: str, client) -> Iterator[Callable[..., Page]]:
    """Open a page of the web process as somebody; an error in its scripts fails the test."""
    contexts, errors = [], []

    def open_as(user) -> Page:
        client.force_login(user)
        context = browser.new_context(base_url=web, viewport={"width": 1280, "height": 900})
        context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": web}])
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.set_default_timeout(20_000)
        return page

    yield open_as
    for context in contexts:
        context.close()
    assert errors == []


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except (urllib.error.URLError, OSError):
        return False
    return True
