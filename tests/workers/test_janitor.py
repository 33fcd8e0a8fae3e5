"""Deleted runs: hidden at once, their folder, rows and row gone piece by piece, whoever dies in between."""

import pytest
from django.db import connection

from webapp.metrics.models import LogLine, Series
from webapp.metrics.services import Batch, store
from webapp.runs import states
from webapp.runs.models import Run
from webapp.runs.selectors import list_runs
from webapp.runs.services import delete_run, placement_exited, record_event
from workers.janitor import remove_piece, sweep


@pytest.fixture
def ended(run, start, log_metrics):
    """A finished run on test-node that measured something."""
    attempt = start(run)
    log_metrics(run, 1, loss=[(step, 1.0) for step in range(2000)])
    batch = Batch()
    batch.add_router({"attempt": 1, "step": 1, "time": run.created_at, "load": [[1, 2]]})
    batch.add_line(1, "output", run.created_at, "info", "a line")
    store(run, batch)
    record_event(run, attempt, {"name": "finished", "text": "", "step": 9, "time": run.created_at})
    placement_exited(attempt.placements.get(), exit_code=0)
    run.refresh_from_db()
    return run


def count(table: str, run_id: int) -> int:
    with connection.cursor() as sql:
        sql.execute(f"SELECT count(*) FROM {table} WHERE run_id = %s", [run_id])
        return sql.fetchone()[0]


def test_a_run_that_is_not_over_is_kept_with_a_sentence(run, operator):
    with pytest.raises(states.NotAllowed, match="stop it before you delete it"):
        delete_run(run, actor=operator)


def test_a_deleted_run_is_hidden_at_once(ended, operator, browser_of):
    delete_run(ended, actor=operator)
    assert list(list_runs()) == []
    assert browser_of(operator).get(f"/runs/{ended.pk}").status_code == 404


def test_everything_of_it_is_removed_and_nothing_of_another(ended, operator, make_run, log_metrics, tmp_path):
    other = make_run("other")
    log_metrics(other, 1, loss=[(1, 1.0)])
    folder = tmp_path / str(ended.pk)
    (folder / "checkpoints").mkdir(parents=True)
    delete_run(ended, actor=operator)
    sweep("test-node", tmp_path)
    assert not folder.exists()
    assert not Run.everything.filter(pk=ended.pk).exists()
    for table in ("metrics_chunk", "metrics_router", "metrics_logline", "metrics_series"):
        assert count(table, ended.pk) == 0
    assert (count("metrics_chunk", other.pk), Series.objects.count(), LogLine.objects.count()) == (1, 1, 0)


def test_one_that_dies_in_between_is_followed_by_another(ended, operator, tmp_path, monkeypatch):
    from webapp.metrics import services

    delete_run(ended, actor=operator)
    real = services.delete_points
    monkeypatch.setattr("workers.janitor._PIECES", (lambda run: real(run, 1),))
    assert remove_piece([])
    assert count("metrics_chunk", ended.pk) > 0
    monkeypatch.undo()
    sweep("test-node", tmp_path)
    assert not Run.everything.filter(pk=ended.pk).exists()


def test_the_run_itself_waits_until_a_living_node_has_removed_its_folder(ended, operator, tmp_path):
    delete_run(ended, actor=operator)
    sweep("another-node", tmp_path)
    assert count("metrics_chunk", ended.pk) == 0
    assert Run.everything.filter(pk=ended.pk).exists()
    sweep("test-node", tmp_path)
    assert not Run.everything.filter(pk=ended.pk).exists()


def test_a_folder_that_cannot_be_removed_is_said_and_tried_again(ended, operator, tmp_path, monkeypatch, caplog):
    (tmp_path / str(ended.pk)).mkdir()
    delete_run(ended, actor=operator)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda folder: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
        sweep("test-node", tmp_path)
    assert "cannot be removed" in caplog.text
    assert Run.everything.filter(pk=ended.pk).exists()
    sweep("test-node", tmp_path)
    assert not Run.everything.filter(pk=ended.pk).exists()
