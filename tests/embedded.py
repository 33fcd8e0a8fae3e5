"""Servers of the tests' own: on sockets in a folder of their own, so that no server that runs already is touched.

Loaded before Django's settings are, since they are read from the environment that is set here.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DATA = Path(tempfile.mkdtemp(prefix="zb-"))
(DATA / "static").mkdir()

os.environ |= {"DATA": str(DATA), "NODE_NAME": "test-node", "DJANGO_SETTINGS_MODULE": "webapp.settings"}
for name in ("DATABASE_URL", "REDIS_URL", "RUNS_DIR", "SECRET_KEY"):
    os.environ.pop(name, None)


@contextmanager
def servers() -> Iterator[None]:
    """PostgreSQL and Valkey below DATA, until the tests are over."""
    from workers.local.servers import Servers, wait_for_broker, wait_for_database
    from workers.local.supervisor import Child

    made = Servers(DATA)
    made.make_folders()
    children = [
        Child("postgres", [*made.postgres_command(), "-c", "fsync=off"], DATA / "postgres.log", user=made.user),
        Child("valkey", made.valkey_command(), DATA / "valkey.log", user=made.user),
    ]
    try:
        for child in children:
            child.start()
        wait_for_database(made.database_url)
        wait_for_broker(made.redis_url)
        yield
    finally:
        for child in reversed(children):
            child.stop(hurry=lambda: False)
        shutil.rmtree(DATA, ignore_errors=True)
