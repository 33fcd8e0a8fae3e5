"""A web process on the benchmarks' servers, and Chromium logged in to it."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tests.browser import find_browser
from tests.stack import free_port


@contextmanager
def web_process() -> Iterator[tuple[str, subprocess.Popen]]:
    """uvicorn as in production, one process; its URL and the process."""
    from django.core.management import call_command

    call_command("collectstatic", interactive=False, verbosity=0)
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "webapp.asgi:application",
        "--port",
        str(port),
        "--log-level",
        "warning",
    ]
    process = subprocess.Popen(command, env={**os.environ, "PORT": str(port)})
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_answered(f"{url}/login")
        yield url, process
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def chromium_page(url: str, user, **viewport: int) -> Iterator:
    """A page of this user's session."""
    from playwright.sync_api import sync_playwright

    cookie = {"name": "sessionid", "value": session_of(user), "url": url}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=find_browser(), args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(base_url=url, viewport=viewport or {"width": 1280, "height": 900})
        context.add_cookies([cookie])
        try:
            yield context.new_page()
        finally:
            browser.close()


def session_of(user) -> str:
    """The cookie of a login."""
    from django.test import Client

    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value


def _wait_until_answered(url: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
