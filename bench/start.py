"""Seconds from "start" to the trainer's first step: by the dashboard, against the same command typed by hand."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from bench._rows import row
from tests.stack import SMALL, Stack, wait_for

_PAIRS = 3


def measure() -> list[dict]:
    """Medians of pairs in one run; and how long a step takes from the journal to its row."""
    folder = Path(tempfile.mkdtemp(prefix="zbench-"))
    stack = Stack(folder / "var")
    stack.data.mkdir()
    try:
        stack.start()
        pairs = [(_by_dashboard(stack), _by_hand(folder)) for _ in range(_PAIRS)]
    finally:
        stack.stop()
        shutil.rmtree(folder, ignore_errors=True)
    ours, hand = (statistics.median(column) for column in zip(*pairs, strict=True))
    return [
        row("start to first step, dashboard", ours, "s", "typed by hand", hand),
        row("start to first step, added by the dashboard", ours - hand, "s", "goal", 1.5),
    ]


def _by_dashboard(stack: Stack) -> float:
    begun = time.time()
    run = stack.start_run("timed", train__steps=3)
    stack.wait_for_state(run, "finished")
    return _first_step(stack.run_dir(run)) - begun


def _by_hand(folder: Path) -> float:
    run_dir = folder / f"hand-{time.time_ns()}"
    assignments = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "zaya_model", "train", "tiny-cpu", "--run-dir", str(run_dir), *assignments]
    begun = time.time()
    subprocess.run(
        [*command, "--set", "train.steps=3"], check=True, capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return _first_step(run_dir) - begun


def _first_step(run_dir: Path) -> float:
    """When the journal's first metrics were written, in seconds since 1970."""

    def found() -> float | None:
        for path in (run_dir / "journal").glob("*.jsonl"):
            for line in path.read_text().splitlines():
                record = json.loads(line)
                if record["kind"] == "metrics":
                    return datetime.fromisoformat(record["time"]).timestamp()
        return None

    return wait_for(found, "the first step")
