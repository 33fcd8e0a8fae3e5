"""Append every fact of a run to JSON lines, and read them back from any offset.

The journal is the one seam between the trainer and whoever watches it: the trainer writes it with no network, the
shipper reads it with no torch. One object a line, strict JSON, with these fields on every record:

    v        1, the version of this format
    seq      counts the records of one file from 0
    time     ISO 8601, UTC, microseconds
    attempt  which start of the run wrote it, from 1
    rank     the process that wrote it
    kind     one of the kinds below
    step     optimiser steps done

    metrics     values: {name: number, or "NaN", "Infinity", "-Infinity"}
    router      load: [[tokens per expert] per layer], skipped: [tokens per layer], bias: [[per class] per layer],
                tokens: tokens routed by each layer since the last record
    checkpoint  status: saving | durable | verified | failed | removed, path (below the run folder),
                and when known: bytes, seconds, stall_seconds, reason
    event       name: started | resumed | finished | stopped | preempted | failed | any other word, text, data: {}
    log         level: debug | info | warning | error, text
"""

import json
import math
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

VERSION = 1
KINDS = ("metrics", "router", "checkpoint", "event", "log")

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def journal_path(run_dir: Path, attempt: int, node: int = 0) -> Path:
    """The file one node's part of one attempt is written to."""
    return run_dir / "journal" / f"attempt-{attempt:04d}-node-{node:04d}.jsonl"


def encode_number(value: float) -> float | str:
    """Make a number strict JSON can hold: NaN and infinities become words."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def decode_number(value: float | str) -> float:
    """Undo `encode_number`. Raises ValueError for any other word."""
    if isinstance(value, str):
        if value not in _NON_FINITE:
            raise ValueError(f"{value!r} is neither a number nor NaN, Infinity or -Infinity")
        return _NON_FINITE[value]
    return float(value)


@dataclass
class Journal:
    """Write records of one process; each line reaches the operating system whole before `write` returns.

    May be used from several threads: the checkpoint's writer reports here too.
    """

    path: Path
    attempt: int
    rank: int = 0
    seq: int = field(default=0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        return self

    def __exit__(self, *_: object) -> None:
        os.fsync(self._file)
        os.close(self._file)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Record scalars of one step."""
        self.write("metrics", step, values={name: encode_number(value) for name, value in values.items()})

    def event(self, step: int, name: str, text: str, **data: Any) -> None:
        """Record something a person would want to find on the run's timeline."""
        self.write("event", step, name=name, text=text, data=data)

    def log(self, step: int, text: str, level: str = "info") -> None:
        """Record a line of the log."""
        self.write("log", step, level=level, text=text)

    def write(self, kind: str, step: int, **body: Any) -> None:
        """Append one record. Raises ValueError for a non-finite number that was not encoded."""
        assert kind in KINDS, kind
        with self._lock:
            record = {
                "v": VERSION,
                "seq": self.seq,
                "time": datetime.now(UTC).isoformat(timespec="microseconds"),
                "attempt": self.attempt,
                "rank": self.rank,
                "kind": kind,
                "step": step,
                **body,
            }
            line = json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"
            while line:
                line = line[os.write(self._file, line) :]
            self.seq += 1


def read_lines(path: Path, offset: int, limit_bytes: int = 1 << 20) -> tuple[list[bytes], int]:
    """Read whole lines from `offset`, about `limit_bytes` of them, without their ends.

    Returns the lines and the offset after the last whole one; a line still being written is left for the next call.
    A line longer than the limit is read whole.
    """
    with path.open("rb") as file:
        file.seek(offset)
        block = file.read(limit_bytes)
        end = block.rfind(b"\n") + 1
        if not end and len(block) == limit_bytes:
            block += file.readline()
            end = len(block) if block.endswith(b"\n") else 0
    return block[:end].split(b"\n")[:-1], offset + end


def parse(line: bytes) -> dict[str, Any]:
    """Read one record. Raises ValueError saying why a line is not a record."""
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(record, dict) or record.get("kind") not in KINDS:
        raise ValueError("a record needs a known kind")
    if not isinstance(record.get("step"), int) or abs(record["step"]) >= 2**62:
        raise ValueError("a record needs a whole-numbered step")
    record["time"] = datetime.fromisoformat(record["time"])
    if record["time"].tzinfo is None:
        raise ValueError("a record's time needs a zone")
    return record


def read_journal(run_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield every whole record of a run folder, attempt by attempt."""
    for path in sorted((run_dir / "journal").glob("*.jsonl")):
        offset, lines = 0, [b""]
        while lines:
            lines, offset = read_lines(path, offset)
            yield from (parse(line) for line in lines)
