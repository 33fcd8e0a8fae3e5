"""python -m tests.packages: have what the tests drive, Chromium and Slurm, installed by apt where possible."""

import os
import shutil
import subprocess
import sys

from tests import slurm
from tests.browser import find_browser


def main() -> int:
    """Install what is missing; in CI Chromium must be there, otherwise tests are skipped with a word."""
    if not find_browser():
        install("chromium", "fonts-dejavu-core")
    if slurm.missing():
        install("slurmctld", "slurmd", "slurm-client", "munge")
    if why := slurm.missing():
        print(f"The tests of Slurm will be skipped: {why}.", file=sys.stderr)
    if find_browser():
        return 0
    print("No Chromium was found or could be installed: the browser tests will be skipped.", file=sys.stderr)
    return 1 if os.environ.get("CI") else 0


def install(*packages: str) -> None:
    """As root alone."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    print(f"installing {', '.join(packages)} for the tests …", flush=True)
    apt = ["apt-get", "-qq", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1"]
    subprocess.run([*apt, "update"], check=False)
    command = [*apt, "install", "-y", "--no-install-recommends", *packages]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, env=environment)


if __name__ == "__main__":
    sys.exit(main())
