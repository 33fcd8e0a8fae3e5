"""Read what a test's run wrote."""

from pathlib import Path
from typing import Any

from zaya_model.journal import read_journal


def records(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    """The journal's records of a kind, in order."""
    return [record for record in read_journal(run_dir) if record["kind"] == kind]


def events(run_dir: Path) -> list[str]:
    """Names of the journal's events, in order."""
    return [record["name"] for record in records(run_dir, "event")]


def losses(run_dir: Path) -> dict[int, float]:
    """Training loss by step; the latest attempt wins."""
    return {r["step"]: r["values"]["loss"] for r in records(run_dir, "metrics") if "loss" in r["values"]}
