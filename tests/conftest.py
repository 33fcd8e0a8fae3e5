"""Fixtures that many tests share: servers, people of each role, a node, runs in several states."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.test import Client

from tests.embedded import servers
from tests.stack import Stack


@pytest.fixture(scope="session")
def embedded_servers() -> Iterator[None]:
    with servers():
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(embedded_servers: None) -> None:
    """The test database is made on the embedded server."""


@pytest.fixture(autouse=True)
def fast_passwords(settings) -> None:
    """A hash made to be slow would be most of the time of these tests."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def operator(db: None):
    from webapp.accounts.models import Role, User

    return User.objects.create_user("olga", password="correct horse", role=Role.OPERATOR)


@pytest.fixture
def viewer(db: None):
    from webapp.accounts.models import User

    return User.objects.create_user("victor", password="correct horse")


@pytest.fixture
def superuser(db: None):
    from webapp.accounts.models import User

    return User.objects.create_superuser("ada", password="correct horse")


@pytest.fixture
def browser_of() -> Callable[..., Client]:
    """A browser logged in as somebody."""

    def open_as(user) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return open_as


@pytest.fixture
def make_node(db: None):
    from webapp.fleet.services import Machine, register_node

    return lambda name="test-node", slots=0: register_node(name, Machine(2, memory_bytes=2**34, slots=slots))


@pytest.fixture
def node(make_node):
    return make_node()


@pytest.fixture
def make_run(operator):
    """Queue a run of the smallest preset; keyword arguments are overrides with `__` for the dot."""
    from webapp.runs.services import create_run
    from zaya_model.presets import load_preset

    def make(name: str = "a run", *, priority: int = 0, tags: tuple[str, ...] = (), **overrides):
        dotted = {key.replace("__", "."): value for key, value in overrides.items()}
        config = load_preset("tiny-cpu", dotted)
        return create_run(owner=operator, name=name, preset="tiny-cpu", config=config, priority=priority, tags=tags)

    return make


@pytest.fixture
def run(make_run):
    return make_run()


@pytest.fixture
def start(node):
    """Give a queued run its node and let its trainer say that it began; returns the attempt."""
    from django.db import transaction

    from webapp.runs import services, states

    def begin(run, *, from_step: int = 0):
        with transaction.atomic():
            attempt = services.allocate(states.lock_run(run.pk), [node])
        services.placement_started(attempt.placements.get())
        record = {"name": "resumed" if from_step else "started", "text": "Begins.", "step": from_step,
                  "data": {"from_step": from_step}, "time": datetime.now(UTC)}  # fmt: skip
        with transaction.atomic():
            services.record_event(states.lock_run(run.pk), attempt, record)
        run.refresh_from_db()
        return attempt

    return begin


@pytest.fixture
def log_metrics():
    """Store scalars as the shipper would: {key: [(step, value), …]}."""
    from django.db import transaction

    from webapp.metrics import services

    def log(run, attempt: int, **series: list[tuple[int, float]]) -> None:
        batch = services.Batch()
        for key, points in series.items():
            for step, value in points:
                record = {"values": {key.replace("__", "/"): value}, "attempt": attempt, "step": step}
                batch.add_metrics({**record, "time": datetime.now(UTC)})
        with transaction.atomic():
            services.store(run, batch)

    return log


@pytest.fixture
def log_router():
    """Store router loads as the shipper would: {step: [tokens per expert of each layer]}."""
    from django.db import transaction

    from webapp.metrics import services

    def log(run, records: dict[int, list[list[int]]]) -> None:
        batch = services.Batch()
        for step, load in records.items():
            record = {"attempt": 1, "step": step, "time": datetime.now(UTC), "load": load}
            batch.add_router({**record, "skipped": [0] * len(load), "bias": [[0.0, 0.5]] * len(load)})
        with transaction.atomic():
            services.store(run, batch)

    return log


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """One whole stack for all tests that need real processes."""
    folder = Path(tempfile.mkdtemp(prefix="zs-"))
    made = Stack(folder / "var")
    made.data.mkdir()
    try:
        yield made.start()
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)
