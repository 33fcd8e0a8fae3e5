"""Journals and logs into Postgres: each line once, whatever it holds, whoever reads it."""

import json
import threading
from datetime import UTC, datetime

import pytest
from django.db import connection, connections, transaction

from webapp.fleet.models import Node
from webapp.metrics import selectors
from webapp.metrics.models import IngestCursor
from webapp.runs import states
from webapp.runs.models import Attempt
from webapp.runs.services import allocate, lose_node
from workers.launchers.place import Place
from workers.launchers.processes import Processes
from workers.shipper import Shipper
from zaya_model.journal import Journal, journal_path


@pytest.fixture
def place(run, start, tmp_path) -> Place:
    start(run)
    place = Place(tmp_path / str(run.pk), 1, 0)
    for folder in ("journal", "logs"):
        (place.run_dir / folder).mkdir(parents=True)
    return place


@pytest.fixture
def journal(place):
    with Journal(journal_path(place.run_dir, 1), 1) as journal:
        yield journal


@pytest.fixture
def ship(place, run):
    def ship_all(*, is_over: bool = False) -> None:
        Shipper("test-node", Processes(place.run_dir.parent)).ship(place, Attempt.objects.get(run=run), is_over=is_over)

    return ship_all


@pytest.fixture
def ship_with(place, run):
    """Ship again and again with one shipper."""
    shipper, attempt = Shipper("test-node", Processes(place.run_dir.parent)), Attempt.objects.get(run=run)
    return lambda: shipper.ship(place, attempt, is_over=False)


def count_points():
    with connection.cursor() as sql:
        sql.execute(
            "SELECT coalesce(sum(count), 0) FROM metrics_chunk "
            "WHERE run_id = (SELECT max(id) FROM runs_run) AND level <= 2"
        )
        return sql.fetchone()[0]


def texts(run):
    return [line.text for line in selectors.read_log(run)]


def test_each_kind_of_record_reaches_its_table(run, journal, ship):
    journal.metrics(3, {"loss": 2.0, "lr/muon": 0.1})
    journal.write("router", 3, load=[[3, 1], [2, 2]], skipped=[0, 1], bias=[[0.0, 0.0, -1.0]] * 2)
    journal.write("checkpoint", 3, status="durable", path="checkpoints/step-00000003", bytes=10, seconds=0.5)
    journal.event(3, "spike", "The loss jumped.")
    journal.log(3, "hello")
    ship()
    run.refresh_from_db()
    assert selectors.list_keys(run) == ["loss", "lr/muon"]
    assert selectors.read_router(run).layers == [[3, 1], [2, 2]]
    assert run.checkpoints.get().status == "durable"
    assert run.events.last().text == "The loss jumped."
    assert texts(run) == ["hello"]
    assert run.step == 3


def test_shipping_again_adds_nothing(journal, ship):
    journal.metrics(1, {"loss": 2.0})
    ship()
    ship()
    assert count_points() == 1


def test_line_still_being_written_waits_for_its_end(journal, place, ship):
    line = json.dumps({"v": 1, "seq": 0, "time": datetime.now(UTC).isoformat(), "attempt": 1, "rank": 0,
                       "kind": "metrics", "step": 1, "values": {"loss": 1.0}})  # fmt: skip
    path = journal_path(place.run_dir, 1)
    with path.open("a") as file:
        file.write(line[:40])
        file.flush()
        ship()
        assert count_points() == 0
        file.write(line[40:] + "\n")
    ship()
    assert count_points() == 1


@pytest.mark.parametrize(
    "line",
    [
        b"{not json", b"[]", b'{"kind": "nothing", "step": 1}', b'{"kind": "metrics", "step": "x"}', b"\xff\xfe\x00",
        b'{"kind":"metrics","step":1,"time":"2026-01-01T00:00:00+00:00","attempt":1,"rank":0,"values":{"a":"many"}}',
        b'{"kind":"metrics","step":99999999999999999999,"time":"2026-01-01T00:00:00+00:00","attempt":1,"values":{}}',
        b'{"kind":"metrics","step":1,"time":"2026-01-01T00:00:00+00:00","attempt":"1","rank":0,"values":{"a":1}}',
        b'{"kind":"metrics","step":1,"time":"2026-01-01T00:00:00+00:00","attempt":4294967296,"values":{"a":1}}',
        b'{"kind":"router","step":1,"time":"2026-01-01T00:00:00+00:00","attempt":1,"rank":0,"load":[["x"]]}',
        b'{"kind":"checkpoint","step":1,"time":"2026-01-01T00:00:00+00:00","attempt":1,"rank":0,"status":"odd"}',
        b'{"kind":"event","step":1,"time":"yesterday","attempt":1,"rank":0,"name":"x","text":"y"}',
    ],
)  # fmt: skip
def test_line_that_is_no_record_becomes_a_warning_and_stops_nothing(run, journal, place, ship, line):
    with journal_path(place.run_dir, 1).open("ab") as file:
        file.write(line + b"\n")
    journal.metrics(2, {"loss": 1.0})
    ship()
    assert count_points() == 1
    (warning,) = selectors.read_log(run)
    assert warning.level == "warning"
    assert warning.text.startswith("A journal line was passed over")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_values_that_are_no_numbers_arrive_as_they_are(run, journal, ship, value):
    journal.metrics(1, {"loss": value})
    ship()
    (curve,) = selectors.read_curves(run, ["loss"])
    assert repr(curve.values[0]) == repr(value)


def test_printed_lines_arrive_whatever_their_bytes(run, place, ship):
    place.log.write_bytes(b"<b>bold</b>\n\x1b[31mred\x1b[0m\nnul \x00 and torn \xe2\x82\n10%\r50%\r100%\n")
    ship()
    odd = "\N{REPLACEMENT CHARACTER}"
    assert texts(run) == ["<b>bold</b>", "\x1b[31mred\x1b[0m", f"nul {odd} and torn {odd}", "100%"]


def test_line_of_ten_megabytes_is_cut_with_a_word(run, place, ship):
    place.log.write_bytes(b"x" * 10_000_000 + b"\nafter\n")
    ship()
    long, after = texts(run)
    assert len(long) < 30_000
    assert "9,980,000 characters more" in long
    assert after == "after"


def test_last_words_without_a_line_end_arrive_when_the_trainer_is_gone(run, place, ship):
    place.log.write_bytes(b"Killed")
    ship()
    assert texts(run) == []
    ship(is_over=True)
    assert texts(run) == ["Killed"]


def test_lines_appended_later_arrive_too(run, place, ship):
    place.log.write_bytes(b"one\n")
    shipped_by = ship
    shipped_by()
    with place.log.open("ab") as file:
        file.write(b"two\n")
    shipped_by()
    assert texts(run) == ["one", "two"]


def test_what_an_attempt_wrote_after_its_node_was_given_up_arrives_and_moves_nothing(run, node, journal, place):
    lose_node(node)
    journal.event(0, "started", "Begins.")
    journal.metrics(7, {"loss": 1.0})
    journal.event(7, "finished", "All done.")
    Shipper(node.name, Processes(place.run_dir.parent)).tick()
    run.refresh_from_db()
    assert count_points() == 1
    assert (run.state, run.step) == ("queued", 0)
    assert "not heard of" in run.attempts.get().reason


def test_quiet_file_with_an_unended_line_is_not_read_again(place, ship_with, django_assert_num_queries):
    place.log.write_bytes(b"50%")
    ship_with()
    with django_assert_num_queries(0):
        ship_with()


@pytest.mark.django_db(transaction=True)
def test_two_shippers_at_once_store_each_line_once(run, journal, place):
    for step in range(2000):
        journal.metrics(step, {"loss": 1.0})

    def ship_until_done() -> None:
        try:
            Shipper("test-node", Processes(place.run_dir.parent)).ship(
                place, Attempt.objects.get(run=run), is_over=False
            )
        finally:
            connections.close_all()

    threads = [threading.Thread(target=ship_until_done) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count_points() == 2000
    assert IngestCursor.objects.get().lines == 2000


def test_what_a_lost_node_left_on_a_shared_disk_is_shipped_by_the_node_that_goes_on(run, place, journal, make_node):
    journal.metrics(1, {"loss": 2.0})
    lost, other = Node.objects.get(name="test-node"), make_node("other")
    lose_node(lost)
    with transaction.atomic():
        allocate(states.lock_run(run.pk), [other])
    Shipper("other", Processes(place.run_dir.parent)).tick()
    assert count_points() == 1
    Shipper("test-node", Processes(place.run_dir.parent)).tick()
    assert count_points() == 1


def test_files_that_cannot_be_read_are_said_once_and_shipped_when_they_can(run, place, journal):
    journal.metrics(1, {"loss": 2.0})
    shipper, path = Shipper("test-node", Processes(place.run_dir.parent)), journal_path(place.run_dir, 1)
    # What root may always read is no file any more while it is a folder.
    path.rename(path.with_suffix(".kept"))
    path.mkdir()
    shipper.tick()
    shipper.tick()
    told = run.events.get(name="unreadable")
    assert "cannot be read on test-node: Is a directory" in told.text
    path.rmdir()
    path.with_suffix(".kept").rename(path)
    shipper.tick()
    assert count_points() == 1
