"""Where an installed Chromium is."""

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str | None:
    """Path of an installed Chromium."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)
