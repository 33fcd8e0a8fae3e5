"""python -m tests.browser: have a Chromium for the browser tests, installed the ordinary way where that is possible."""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str | None:
    """Path of an installed Chromium."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def main() -> int:
    """Install it if it is missing; in CI it must be there, elsewhere the browser tests are skipped with a word."""
    if find_browser():
        return 0
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing Chromium for the browser tests …", flush=True)
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    if find_browser():
        return 0
    print("No Chromium was found or could be installed: the browser tests will be skipped.", file=sys.stderr)
    return 1 if os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
