"""Who is given nodes, and when: whole gangs or nothing, the urgent first."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from webapp.fleet.models import Node, Service
from webapp.fleet.services import drain_node, node_heartbeat
from webapp.runs.models import Placement, RunState
from webapp.runs.services import lose_node, placement_exited
from workers import scheduler


def states_of(*runs):
    for run in runs:
        run.refresh_from_db()
    return [run.state for run in runs]


def test_waiting_run_is_given_a_free_node(run, node):
    scheduler.look()
    assert states_of(run) == [RunState.STARTING]
    assert Placement.objects.get().node == node


def test_looking_again_changes_nothing(run, node):
    scheduler.look()
    scheduler.look()
    assert Placement.objects.count() == 1


def test_node_is_never_in_two_runs(make_run, node):
    first, second = make_run("first"), make_run("second")
    scheduler.look()
    assert states_of(first, second) == [RunState.STARTING, RunState.QUEUED]


def test_gang_gets_all_of_its_nodes_or_none(make_run, make_node):
    gang = make_run(parallel__nodes=2)
    make_node("n1")
    scheduler.look()
    assert (states_of(gang), Placement.objects.count()) == ([RunState.QUEUED], 0)
    make_node("n2")
    scheduler.look()
    assert (states_of(gang), Placement.objects.count()) == ([RunState.STARTING], 2)


def test_waiting_gang_is_not_overtaken_by_smaller_runs(make_run, make_node, start):
    start(make_run("busy"))
    gang, small = make_run(parallel__nodes=2), make_run()
    make_node("n1")
    scheduler.look()
    assert states_of(gang, small) == [RunState.QUEUED, RunState.QUEUED]


def test_urgent_run_goes_first(make_run, node):
    normal, urgent = make_run("normal"), make_run("urgent", priority=1)
    scheduler.look()
    assert states_of(normal, urgent) == [RunState.QUEUED, RunState.STARTING]


def test_less_urgent_run_is_asked_to_make_way_once(make_run, start):
    low = make_run("low", priority=-1)
    start(low)
    make_run("normal")
    scheduler.look()
    scheduler.look()
    low.refresh_from_db()
    assert low.is_yielding
    assert low.events.filter(name="yielding").count() == 1


@pytest.mark.parametrize("unusable", ["draining", "silent"])
def test_unusable_node_is_given_nothing(run, node, unusable):
    if unusable == "draining":
        drain_node(node)
    else:
        Node.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    scheduler.look()
    assert states_of(run) == [RunState.QUEUED]
    assert run.reason == "No node is alive: start a node worker."


def test_run_of_a_silent_node_goes_back_to_the_queue(run, start):
    start(run)
    Node.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    scheduler.look()
    assert states_of(run) == [RunState.QUEUED]
    assert run.attempts.get().outcome == "lost"


def test_run_that_never_started_uses_no_restart_when_its_node_goes_silent(run, node):
    scheduler.look()
    Node.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    scheduler.look()
    assert states_of(run) == [RunState.QUEUED]
    assert run.restarts == 0


def test_after_an_outage_of_the_scheduler_silence_proves_nothing(run, start, monkeypatch):
    monkeypatch.setattr(scheduler, "_trusts_leases_at", 0.0)
    start(run)
    long_ago = timezone.now() - timedelta(hours=1)
    Node.objects.update(last_seen_at=long_ago)
    Service.objects.create(name=scheduler.SERVICE, last_seen_at=long_ago)
    scheduler.look()
    scheduler.look()
    assert states_of(run) == [RunState.RUNNING]


def test_run_that_needs_more_nodes_than_there_are_holds_up_nobody(make_run, node):
    giant, small = make_run(parallel__nodes=2), make_run()
    scheduler.look()
    assert states_of(giant, small) == [RunState.QUEUED, RunState.STARTING]
    assert giant.reason == "Needs 2 nodes, 1 are alive and not draining."


def test_nobody_makes_way_when_that_would_not_be_enough(make_run, make_node, start):
    low = make_run("low", priority=-1)
    start(low)
    drain_node(Node.objects.get())
    make_node("other")
    make_run("gang", parallel__nodes=2)
    scheduler.look()
    low.refresh_from_db()
    assert not low.is_yielding


def test_gang_goes_on_only_when_none_of_its_old_processes_is_left(make_run, make_node):
    gang = make_run(parallel__nodes=2)
    first, second = make_node("n1"), make_node("n2")
    scheduler.look()
    Placement.objects.update(started_at=timezone.now())
    lose_node(first)
    scheduler.look()
    assert states_of(gang) == [RunState.QUEUED]
    assert gang.reason == "Waits for the processes of its last attempt to end."
    placement_exited(second.placements.get(), exit_code=-9)
    scheduler.look()
    assert states_of(gang) == [RunState.STARTING]


def test_node_that_shuts_down_is_given_nothing_until_it_is_back(run, node, make_node):
    node_heartbeat(node.name, is_leaving=True)
    scheduler.look()
    assert states_of(run) == [RunState.QUEUED]
    make_node(node.name)
    scheduler.look()
    assert states_of(run) == [RunState.STARTING]


def nodes_of(run):
    return [placement.node.name for placement in Placement.objects.filter(attempt__run=run, ended_at=None)]


def test_gateway_takes_whole_gangs_as_many_as_it_has_slots(make_run, make_node):
    gangs = [make_run(parallel__nodes=8) for _ in range(3)]
    make_node("gateway", slots=2)
    scheduler.look()
    assert [nodes_of(gang) for gang in gangs] == [["gateway"], ["gateway"], []]
    gangs[2].refresh_from_db()
    assert gangs[2].reason == "Waits for a gateway to have a slot free."
    Placement.objects.filter(attempt__run=gangs[0]).update(ended_at=timezone.now())
    scheduler.look()
    assert nodes_of(gangs[2]) == ["gateway"]


def test_slot_of_a_gateway_holds_one_run(make_run, make_node):
    first = make_run()
    make_node("gateway", slots=2)
    scheduler.look()
    placement = Placement.objects.get(attempt__run=first)
    with pytest.raises(IntegrityError), transaction.atomic():
        Placement.objects.create(attempt=placement.attempt, node=placement.node, rank=1, slot=placement.slot)


def test_machines_come_before_the_gateway(make_run, make_node, node):
    small, other, gang = make_run(), make_run(), make_run(parallel__nodes=2)
    make_node("gateway", slots=2)
    scheduler.look()
    assert [nodes_of(run) for run in (small, other, gang)] == [[node.name], ["gateway"], ["gateway"]]


def test_one_run_of_a_gateway_makes_way_for_an_urgent_gang(make_run, make_node):
    low = [make_run(priority=-1), make_run(priority=-1)]
    make_node("gateway", slots=2)
    scheduler.look()
    type(low[0]).objects.update(state=RunState.RUNNING)
    make_run("urgent", parallel__nodes=4)
    scheduler.look()
    assert [run.is_yielding for run in type(low[0]).objects.filter(priority=-1)].count(True) == 1
