"""Which start of a run this is."""

from pathlib import Path


def next_attempt(run_dir: Path) -> int:
    """One more than the newest attempt of a run folder."""
    numbers = [int(path.name.split("-")[1]) for path in (run_dir / "journal").glob("attempt-*-node-*.jsonl")]
    return max(numbers, default=0) + 1
