"""An MLflow server as a peer: pinned, in an environment of its own, on the same PostgreSQL in a schema of its own."""

import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_PINS = ("mlflow==3.17.2", "psycopg2-binary==2.9.13")
_HOME = Path(tempfile.gettempdir()) / "zayaboard-bench-mlflow"


@contextmanager
def mlflow_client() -> Iterator[Callable[[str], dict]]:
    """Run scripts that find `client` and `uri` and set `answer`. Raises RuntimeError where MLflow cannot be had."""
    python = _environment()
    from django.conf import settings
    from django.db import connection

    with connection.cursor() as sql:
        sql.execute("DROP SCHEMA IF EXISTS mlflow CASCADE; CREATE SCHEMA mlflow")
    database = settings.DATABASES["default"]
    store = f"postgresql+psycopg2://postgres@/{database['NAME']}?host={database['HOST']}&options=-csearch_path=mlflow"
    with socket.create_server(("127.0.0.1", 0)) as free:
        uri = f"http://127.0.0.1:{free.getsockname()[1]}"
    with (_HOME / "server.log").open("w") as log:
        server = subprocess.Popen(
            [python, "-m", "mlflow", "server", "--backend-store-uri", store, "--artifacts-destination", _HOME / "files",
             "--host", "127.0.0.1", "--port", uri.rsplit(":", 1)[1], "--workers", "1"],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _wait_for(uri, server)
        yield lambda script: _run(python, uri, script)
    finally:
        server.terminate()
        server.wait(20)


def _environment() -> Path:
    python = _HOME / "bin" / "python"
    if not (_HOME / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", _HOME], check=True)
        made = subprocess.run([python, "-m", "pip", "install", "-q", *_PINS], capture_output=True, text=True)
        if made.returncode:
            raise RuntimeError(f"pip cannot install {_PINS[0]}: {made.stderr.strip().splitlines()[-1]}")
        (_HOME / "ready").touch()
    return python


def _wait_for(uri: str, server: subprocess.Popen) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{uri}/health", timeout=1).close()
            return
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.2)
    raise RuntimeError(f"its server does not answer, see {_HOME / 'server.log'}")


def _run(python: Path, uri: str, script: str) -> dict:
    opening = f"import json\nfrom mlflow import MlflowClient\nuri = {uri!r}\nclient = MlflowClient(uri)\n"
    done = subprocess.run(
        [python, "-c", f"{opening}{script}\nprint(json.dumps(answer))"], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])
