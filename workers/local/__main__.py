"""python -m workers.local: everything on one machine, until Ctrl-C."""

import argparse
import fcntl
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from workers.local.servers import ServerError, Servers, wait_for_broker, wait_for_database
from workers.local.supervisor import Child, Supervisor

_STOP_ORDER = ("web", "beat", "node", "scheduler", "valkey", "postgres")
_NODE_PATIENCE = 600.0
_SERVER_PATIENCE = 20.0


def main() -> int:
    """Parse, check, run; a problem is one sentence and exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m workers.local", description="Run everything on this machine.")
    parser.add_argument("--data", default=os.environ.get("DATA", "./var"), help="folder of everything kept (DATA)")
    parser.add_argument("--host", default=os.environ.get("HOST", "127.0.0.1"), help="address to listen on (HOST)")
    parser.add_argument("--port", type=int, default=os.environ.get("PORT", "8000"), help="port to listen on (PORT)")
    parser.add_argument(
        "--demo", choices=("0", "1"), default=os.environ.get("DEMO", "1"), help="0: no demonstration run (DEMO)"
    )
    arguments = parser.parse_args()
    try:
        return up(Path(arguments.data).resolve(), arguments.host, arguments.port, with_demo=arguments.demo == "1")
    except ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def up(data: Path, host: str, port: int, *, with_demo: bool) -> int:
    """Start all, keep all alive, stop all. Raises ServerError."""
    lock = take_lock(data)
    check_port(host, port)
    os.environ |= {"DATA": str(data), "DJANGO_SETTINGS_MODULE": "webapp.settings"}
    (data / "logs").mkdir(exist_ok=True)
    supervisor = Supervisor(say)
    try:
        start_servers(supervisor, data)
        if not supervisor.is_ending:
            prepare(with_demo=with_demo)
            start_processes(supervisor, data, host, port)
            wait_until_ready(supervisor, host, port)
        if not supervisor.is_ending:
            say(f"\n  Zayaboard is ready: http://{host}:{port}\n  Ctrl-C stops everything; runs are saved first.\n")
        supervisor.watch()
        say("stopping: runs save a checkpoint first …")
    finally:
        supervisor.stop(_STOP_ORDER)
        if supervisor.num_signals > 1:
            kill_trainers(data)
        lock.close()
    say("stopped")
    return 0


def take_lock(data: Path) -> TextIO:
    """Make DATA ours. Raises ServerError when it cannot be written or another one runs on it."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        lock = (data / "up.lock").open("w")
    except OSError as error:
        raise ServerError(f"DATA={data} cannot be written: {error.strerror}. Choose another folder.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ServerError(f"Another `make up` runs on DATA={data}; stop it first, or choose another DATA.") from None
    return lock


def check_port(host: str, port: int) -> None:
    """Raises ServerError when the port cannot be had."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ServerError(f"Port {port} on {host} cannot be had: {why}. Give another one: PORT=8001.") from error


def start_servers(supervisor: Supervisor, data: Path) -> None:
    """Start the servers that were not given by URL, and wait for both."""
    servers = Servers(data)
    database_url, redis_url = os.environ.get("DATABASE_URL"), os.environ.get("REDIS_URL")
    if not (database_url and redis_url) and (notice := servers.make_folders()):
        say(f"note: {notice}")
    if not database_url:
        supervisor.add(
            Child(
                "postgres", servers.postgres_command(), data / "logs" / "postgres.log", user=servers.user,
                stop_signal=signal.SIGINT, patience=30.0,
            )
        )  # fmt: skip
    if not redis_url:
        (servers.sockets / "valkey.sock").unlink(missing_ok=True)
        supervisor.add(Child("valkey", servers.valkey_command(), data / "logs" / "valkey.log", user=servers.user))
    for name, wait, url in (
        ("postgres", wait_for_database, database_url or servers.database_url),
        ("valkey", wait_for_broker, redis_url or servers.redis_url),
    ):
        wait_for_server(supervisor, name, lambda wait=wait, url=url: wait(url, seconds=1.0))


def wait_for_server(
    supervisor: Supervisor, name: str, wait: Callable[[], None], *, seconds: float = _SERVER_PATIENCE
) -> None:
    """Wait until it answers; one that died is started again, for its predecessor may just be leaving the folder.

    Raises ServerError with the end of its log.
    """
    deadline = time.monotonic() + seconds
    while not supervisor.is_ending:
        try:
            return wait()
        except ServerError as error:
            if time.monotonic() > deadline:
                child = next((child for child in supervisor.children if child.name == name), None)
                why = f" {child.log} ends with: {child.last_line()}" if child else ""
                raise ServerError(f"{error}{why}") from error
            supervisor.revive()


def prepare(*, with_demo: bool) -> None:
    """Bring database and static files up to date; the first time, make an administrator and a demonstration run."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connections

    from webapp.accounts.services import create_first_administrator
    from workers.local.demonstration import queue_demonstration

    call_command("migrate", verbosity=0, interactive=False)
    call_command("collectstatic", verbosity=0, interactive=False)
    if credentials := create_first_administrator():
        name, password = credentials
        say(f"\n  First administrator: {name}\n  Password:            {password}\n  It is not shown again.")
        if with_demo:
            queue_demonstration()
    connections.close_all()


def start_processes(supervisor: Supervisor, data: Path, host: str, port: int) -> None:
    """Start web, scheduler, beat and node."""
    worker = ["-A", "workers", "worker", "--pool=solo", "--without-gossip", "--without-mingle", "--loglevel=INFO"]
    name = os.environ.get("NODE_NAME") or socket.gethostname()
    commands = {
        "web": [
            "-m", "uvicorn", "webapp.asgi:application", f"--host={host}", f"--port={port}",
            "--timeout-graceful-shutdown=2", "--no-access-log", "--no-server-header",
        ],
        "scheduler": ["-m", "celery", *worker, "-Q", "scheduler", "-n", "scheduler@%h"],
        "beat": ["-m", "celery", "-A", "workers", "beat", "--pidfile=", "--loglevel=WARNING"],
        "node": ["-m", "celery", *worker, "-Q", f"node.{name}", "-n", "node@%h"],
    }  # fmt: skip
    for child_name, command in commands.items():
        patience = _NODE_PATIENCE if child_name == "node" else 10.0
        log = data / "logs" / f"{child_name}.log"
        supervisor.add(Child(child_name, [sys.executable, *command], log, patience=patience))


def wait_until_ready(supervisor: Supervisor, host: str, port: int, *, seconds: float = 60.0) -> None:
    """Wait for /healthz. Raises ServerError with the end of the web process's log."""
    deadline = time.monotonic() + seconds
    url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}/healthz"
    while not supervisor.is_ending:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError) as error:
            web = next(child for child in supervisor.children if child.name == "web")
            if time.monotonic() > deadline or not web.is_alive:
                why = web.last_line() or error
                raise ServerError(f"The web process does not answer; {web.log} ends with: {why}") from error
            time.sleep(0.1)


def kill_trainers(data: Path) -> None:
    """In a hurry: end the trainers too, which live in sessions of their own."""
    from workers.launchers.processes import Processes

    runs = Path(os.environ.get("RUNS_DIR") or data / "runs").resolve()
    for trainer in Processes(runs).alive():
        trainer.kill(signal.SIGKILL)


def say(text: str) -> None:
    """Tell the terminal, if it is still there."""
    with suppress(OSError):
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
