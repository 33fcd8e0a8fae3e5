"""Django on servers of the benchmarks' own, with a run in them that looks like the demonstration."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from tests import embedded


@contextmanager
def django_ready() -> Iterator[None]:
    """Servers up, database migrated; torn down afterwards."""
    with embedded.servers():
        import django

        django.setup()
        from django.core.management import call_command
        from django.db import connections

        call_command("migrate", verbosity=0)
        try:
            yield
        finally:
            for connection in connections.all():
                connection.close()
                connection.close_pool()


def make_run(*, steps: int, name: str = "Demonstration"):
    """A run with as many metrics and router loads as the demonstration has after `steps` steps; and its owner."""
    from django.db import transaction

    from webapp.accounts.models import User
    from webapp.fleet.services import Machine, register_node
    from webapp.metrics import services as metrics
    from webapp.runs import services, states
    from zaya_model.presets import load_preset

    owner = User.objects.filter(username="bench").first() or User.objects.create_superuser("bench", password="bench")
    run = services.create_run(owner=owner, name=name, preset="tiny-cpu", config=load_preset("tiny-cpu"))
    node = register_node(f"node-{run.pk}", Machine(num_cores=2, memory_bytes=2**34))
    now = datetime.now(UTC)
    with transaction.atomic():
        locked = states.lock_run(run.pk)
        attempt = services.allocate(locked, [node])
        services.record_event(locked, attempt, {"name": "started", "text": "", "step": 0, "data": {}, "time": now})
        batch = metrics.Batch()
        for record in records(steps, now):
            (batch.add_metrics if record["kind"] == "metrics" else batch.add_router)(record)
        metrics.store(run, batch)
    return run, owner


def records(steps: int, now: datetime) -> Iterator[dict]:
    """Journal records of the demonstration's shape."""
    keys = ["loss", "eval/loss", "tokens_per_second", "mfu", "grad_norm", "step_seconds"]
    keys += [f"key/{number}" for number in range(14)]
    for step in range(1, steps + 1):
        at = {"attempt": 1, "rank": 0, "step": step, "time": now}
        yield {**at, "kind": "metrics", "values": {key: 5.0 / step + number for number, key in enumerate(keys)}}
        if step % 10 == 0:
            yield {
                **at,
                "kind": "router",
                "load": [[500 + e * 10 for e in range(8)]] * 4,
                "skipped": [0] * 4,
                "bias": [[0.0] * 9] * 4,
            }
