"""A whole stack of the tests' own, started as a user starts it, and ways to look into it and to harm it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg

from webapp.environment import embedded_database_url

ROOT = Path(__file__).parents[1]
# A model of a few thousand parameters: what is tested here is the way, not the learning.
SMALL = {
    "model.hidden_size": 32, "model.num_hidden_layers": 2, "model.moe_intermediate_size": 32, "model.num_experts": 4,
    "data.sequence_length": 32, "train.global_batch_size": 4, "train.micro_batch_size": 4, "train.eval_every_steps": 0,
    "checkpoint.every_steps": 20,
}  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition: Callable[[], Any], what: str, *, seconds: float = 60.0) -> Any:
    """Poll until the condition holds; its value is returned."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"waited {seconds:.0f} s in vain for {what}")


class Stack:
    """`python -m workers.local` on a DATA of its own."""

    def __init__(self, data: Path, *, demo: bool = False) -> None:
        self.data, self.port, self.demo = data, free_port(), demo
        self.url = f"http://127.0.0.1:{self.port}"
        self.output = data.parent / f"{data.name}.out"
        self.token = ""

    def start(self) -> "Stack":
        environment = {**os.environ, "DATA": str(self.data), "PORT": str(self.port), "DEMO": str(int(self.demo)),
                       "OMP_NUM_THREADS": "1", "NODE_NAME": "stack-node"}  # fmt: skip
        with self.output.open("a") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workers.local"], cwd=ROOT, env=environment, stdout=output, stderr=output
            )
        wait_for(lambda: "is ready" in self.said() or self.process.poll() is not None, "the stack to be ready")
        assert self.process.poll() is None, self.said()
        self.token = self.token or self._make_token(environment)
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM, *, seconds: float = 60.0) -> int:
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def said(self) -> str:
        return self.output.read_text()

    @property
    def password(self) -> str:
        return re.search(r"Password:\s+(\S+)", self.said()).group(1)

    def _make_token(self, environment: dict[str, str]) -> str:
        command = [sys.executable, "manage.py", "token", "tests"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def ask(self, path: str, body: Any = None, *, method: str | None = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}", method=method or ("GET" if body is None else "POST"),
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def try_ask(self, path: str) -> Any:
        """Ask, or None while the server is away."""
        assert self.process.poll() is None, f"the stack ended: {self.said()}"
        try:
            return self.ask(path)
        except (urllib.error.URLError, OSError):
            return None

    def start_run(self, name: str = "tested", **overrides: Any) -> int:
        dotted = {key.replace("__", "."): value for key, value in overrides.items()}
        return self.ask("/runs", {"name": name, "preset": "tiny-cpu", "overrides": {**SMALL, **dotted}})["id"]

    def wait_for_step(self, run: int, step: int) -> None:
        wait_for(lambda: (found := self.try_ask(f"/runs/{run}")) and found["step"] >= step, f"step {step} of run {run}")

    def wait_for_state(self, run: int, *states: str, seconds: float = 90.0) -> dict[str, Any]:
        def reached() -> Any:
            found = self.try_ask(f"/runs/{run}")
            return found if found and found["state"] in states else None

        return wait_for(reached, f"run {run} to be {' or '.join(states)}", seconds=seconds)

    def child(self, *words: str) -> psutil.Process:
        """The process of this stack whose command line has all these words."""
        found = [child for child in psutil.Process(self.process.pid).children() if _has(child, words)]
        assert found, f"no process with {words}"
        return found[0]

    def trainer(self, run: int) -> psutil.Process:
        records = sorted((self.run_dir(run) / "processes").glob("*.json"))
        shell = psutil.Process(json.loads(records[-1].read_text())["pid"])
        return shell.children(recursive=True)[0]

    def run_dir(self, run: int) -> Path:
        return self.data / "runs" / str(run)

    def query(self, sql: str, *values: Any) -> list[tuple]:
        url = embedded_database_url(self.data)
        with psycopg.connect(url) as connection:
            return connection.execute(sql, values).fetchall()

    def assert_shipped_once(self, run: int) -> None:
        """Every journal line is in Postgres exactly once, counted by what the lines hold."""
        records = [
            json.loads(line)
            for path in (self.run_dir(run) / "journal").glob("*.jsonl")
            for line in path.read_bytes().split(b"\n")[:-1]
        ]
        expected = {
            "points": sum(len(record["values"]) for record in records if record["kind"] == "metrics"),
            "loads": sum(len(record["load"]) for record in records if record["kind"] == "router"),
            "lines": len(records),
        }
        ((points,),) = self.query(
            "SELECT coalesce(sum(count), 0)::int FROM metrics_chunk WHERE run_id = %s AND level <= 2", run
        )
        ((loads,),) = self.query("SELECT count(*) FROM metrics_router WHERE run_id = %s", run)
        ((lines,),) = self.query(
            "SELECT sum(lines)::int FROM metrics_ingestcursor WHERE run_id = %s AND path LIKE 'journal/%%'", run
        )
        assert {"points": points, "loads": loads, "lines": lines} == expected
        assert expected["points"] > 0


def _has(process: psutil.Process, words: tuple[str, ...]) -> bool:
    try:
        line = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return all(word in line for word in words)
