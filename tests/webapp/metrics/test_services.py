"""Points come all or not at all, from whoever brings them, and those of an older database are kept."""

import importlib
import math
import threading
from datetime import UTC, datetime

import pytest
from django.db import connection, connections, transaction

from webapp.metrics import selectors, services
from webapp.metrics.models import Series
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


def batch_of(steps, keys=("loss",)):
    batch = services.Batch()
    for step in steps:
        record = {"attempt": 1, "step": step, "time": datetime.now(UTC), "values": dict.fromkeys(keys, float(step))}
        batch.add_metrics(record)
    return batch


def count_chunks(run):
    with connection.cursor() as sql:
        sql.execute("SELECT count(*) FROM metrics_chunk WHERE run_id = %s", [run.pk])
        return sql.fetchone()[0]


def test_transaction_undone_after_merging_leaves_nothing_behind(run, start, log_metrics):
    start(run)
    log_metrics(run, 1, loss=[(0, 0.0)])
    with transaction.atomic():
        for at in range(1, 40_001, 2000):
            services.store(run, batch_of(range(at, at + 2000)))
        transaction.set_rollback(True)
    (curve,) = selectors.read_curves(run, ["loss"])
    assert (curve.steps, count_chunks(run)) == ([0], 1)
    assert selectors.last_values([run], ["loss"]) == {run.pk: {"loss": 0.0}}


def test_record_with_a_value_that_is_no_number_leaves_nothing_of_itself():
    batch = services.Batch()
    record = {"attempt": 1, "step": 1, "time": datetime.now(UTC), "values": {"a": 1.0, "b": "many"}}
    with pytest.raises(ValueError, match="many"):
        batch.add_metrics(record)
    assert batch.tracks == {}


def test_points_are_deleted_some_at_a_time_and_no_others(make_run, log_metrics):
    run, other = make_run(), make_run()
    for of in (run, other):
        log_metrics(of, 1, loss=[(step, 1.0) for step in range(5000)])
    at_once = []
    while deleted := services.delete_points(run, limit=4):
        at_once.append(deleted)
    assert at_once == [4, 4, 2]
    assert (count_chunks(run), count_chunks(other)) == (0, 10)


def test_thousands_of_keys_on_one_run(run, start):
    start(run)
    keys = [f"key/{number}" for number in range(10_000)]
    services.store(run, batch_of([1], keys))
    services.store(run, batch_of([2], keys))
    first, last = selectors.read_curves(run, [keys[0], keys[-1]])
    assert first.steps == last.steps == [1, 2]
    assert len(selectors.list_keys(run)) == 10_000


def test_key_too_long_or_unstorable_is_made_storable(run, start):
    start(run)
    services.store(run, batch_of([1], ["x" * 300, "nul\x00"]))
    assert sorted(map(len, selectors.list_keys(run))) == [4, 250]


@pytest.mark.django_db(transaction=True)
def test_nodes_that_bring_points_of_one_series_at_once_lose_none(run, start):
    start(run)

    def bring(node: int) -> None:
        try:
            for at in range(40):
                with transaction.atomic():
                    services.store(Run.objects.get(pk=run.pk), batch_of([4 * at + node]))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=bring, args=[node]) for node in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (curve,) = selectors.read_curves(run, ["loss"])
    assert curve.steps == list(range(160))
    assert count_chunks(run) < 40


def test_points_of_an_older_database_are_converted(run, start):
    start(run)
    series = Series.objects.create(run=run, key="loss")
    with connection.cursor() as sql:
        sql.execute(
            "CREATE TABLE metrics_point (series_id int8, step int8, time timestamptz, value float8, attempt int4)"
        )
        sql.execute(
            "INSERT INTO metrics_point SELECT %s, step, now(), CASE step WHEN 7 THEN 'NaN'::float8 ELSE step END, 1 "
            "FROM generate_series(-10, 19989) AS step",
            [series.pk],
        )
    migration = importlib.import_module("webapp.metrics.migrations.0002_chunks")
    with connection.schema_editor() as editor:
        migration.convert(None, editor)
    (curve,) = selectors.read_curves(run, ["loss"], max_points=20_001)
    assert curve.steps == list(range(-10, 19_990))
    assert [step for step, value in zip(curve.steps, curve.values, strict=True) if math.isnan(value)] == [7]


@pytest.mark.django_db(transaction=True)
def test_export_misses_nothing_while_points_are_merged(run, log_metrics):
    for step in range(300):
        log_metrics(run, 1, loss=[(step, 1.0)])
    pieces = selectors.export_points(run)
    steps = next(pieces)[2].step.tolist()
    for step in range(300, 400):
        log_metrics(run, 1, loss=[(step, 1.0)])
    assert steps + [step for *_, points in pieces for step in points.step.tolist()] == list(range(300))
