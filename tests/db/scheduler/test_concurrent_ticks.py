"""Concurrent ticks in threads with connections of their own, and lost connections."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.db.models import Sum

from agents.models import AgentSlot, ResourceGroup
from agents.resource_groups import service
from common import clock
from common.actors import SYSTEM
from common.errors import Conflict
from scheduler.commit.plan_commit import GroupBusy, StalePlan, commit_plan
from scheduler.engine import plan
from scheduler.models import SchedulerState
from scheduler.run_state import run_state
from scheduler.snapshot.reader import read_snapshot
from scheduler.tick import run_tick
from sessions_app.core.states import HOLDING, Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession, KernelAllocation
from tests.factories_scheduler import Cluster, make_cluster
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
GIB = 2**30
SMALL = {"cpu": 1000, "mem": GIB}


@pytest.fixture
def cluster(transactional_db: None) -> Cluster:
    return make_cluster()


def at_the_same_time(*jobs: Callable[[], object]) -> list[object]:
    """Run each job in a thread of its own, all released at once; what each returned or raised."""
    results: list[object] = [None] * len(jobs)
    gate = threading.Barrier(len(jobs))

    def run(index: int, job: Callable[[], object]) -> None:
        try:
            gate.wait(timeout=10)
            results[index] = job()
        except (GroupBusy, StalePlan, Conflict, OperationalError) as error:
            results[index] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=each) for each in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert not any(thread.is_alive() for thread in threads)
    return results


def assert_ledger_is_exact() -> None:
    """Each session holds exactly what it asked for; each agent's row says their sum, within capacity."""
    rows = KernelAllocation.objects.values_list("agent_id", "slot_name").annotate(held=Sum("amount"))
    held = {(agent_id, name): amount for agent_id, name, amount in rows.order_by()}
    for slot in AgentSlot.objects.all():
        assert slot.occupied == held.get((slot.agent_id, slot.slot_name), 0) <= slot.capacity
    for session in ComputeSession.objects.prefetch_related("kernels__allocations"):
        expected = session.requested_slots if session.status in HOLDING else {}
        for kernel in session.kernels.all():
            assert {each.slot_name: each.amount for each in kernel.allocations.all()} == expected


@contextmanager
def held_open(lock: Callable[[], object]) -> Iterator[None]:
    """Another worker took these locks in a transaction that is still open."""
    is_locked, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            lock()
            is_locked.set()
            may_end.wait(timeout=20)
        connections.close_all()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert is_locked.wait(timeout=10)
        yield
    finally:
        may_end.set()
        thread.join(timeout=10)


def test_two_ticks_at_once_place_each_session_once_and_never_over_capacity(cluster):
    for _ in range(3):
        cluster.add_agent({"cpu": 3000, "mem": 3 * GIB})
    sessions = [cluster.add_pending(SMALL) for _ in range(12)]

    results = at_the_same_time(*[lambda: run_tick(cluster.group.pk)] * 4)

    placed: list[UUID] = [each for result in results if isinstance(result, list) for each in result]
    assert len(placed) == len(set(placed)) == 9
    assert set(placed) < {session.pk for session in sessions}
    assert ComputeSession.objects.filter(status=Status.SCHEDULED).count() == 9
    assert_ledger_is_exact()


def test_of_two_plans_made_from_one_snapshot_exactly_one_is_committed(cluster):
    cluster.add_agent(SMALL)
    session = cluster.add_pending(SMALL)
    decided = plan(read_snapshot(cluster.group.pk), clock.now())

    results = at_the_same_time(*[lambda: commit_plan(decided)] * 2)

    assert sorted(type(result) for result in results if isinstance(result, list)) == [list]
    assert any(isinstance(result, (GroupBusy, StalePlan)) for result in results)
    assert [result for result in results if isinstance(result, list)] == [[session.pk]]
    assert_ledger_is_exact()


def test_a_tick_beside_a_commit_that_does_not_end_leaves_after_a_short_wait(cluster):
    cluster.add_agent(SMALL)
    cluster.add_pending(SMALL)
    decided = plan(read_snapshot(cluster.group.pk), clock.now())
    with held_open(lambda: commit_plan(decided)), pytest.raises(GroupBusy):
        run_tick(cluster.group.pk)
    assert ComputeSession.objects.get().status == Status.SCHEDULED
    assert_ledger_is_exact()


def test_the_wait_for_a_commit_bounds_no_other_wait(cluster):
    with transaction.atomic(), connection.cursor() as cursor:
        commit_plan(plan(read_snapshot(cluster.group.pk), clock.now()))
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)


def test_locked_head_stays_head():
    cluster = make_cluster(scheduler="drf")
    cluster.add_agent(SMALL)
    head, beside = cluster.add_pending(SMALL), cluster.add_pending(SMALL)
    SchedulerState.objects.create(group=cluster.group, head_ids=[head.pk])
    with held_open(lambda: ComputeSession.objects.select_for_update().get(pk=head.pk)):
        assert run_tick(cluster.group.pk) == []
    assert SchedulerState.objects.get(group=cluster.group).head_ids == [head.pk]
    ComputeSession.objects.filter(pk=beside.pk).update(created_at=clock.now() - timedelta(days=1))
    assert run_tick(cluster.group.pk) == [head.pk]


def test_groups_do_not_wait_for_each_other(cluster):
    other = make_cluster()
    for each in (cluster, other):
        each.add_agent(SMALL)
        each.add_pending(SMALL)
    decided = plan(read_snapshot(cluster.group.pk), clock.now())
    with held_open(lambda: commit_plan(decided)):
        assert len(run_tick(other.group.pk)) == 1


def test_ticks_that_race_with_cancels_and_ends_keep_the_ledger_exact(cluster):
    for _ in range(2):
        cluster.add_agent({"cpu": 4000, "mem": 4 * GIB})
    for _ in range(5):
        pending = [cluster.add_pending(SMALL, kernels=1 + number % 2) for number in range(5)]
        scheduled = list(ComputeSession.objects.filter(status=Status.SCHEDULED))
        at_the_same_time(
            lambda: run_tick(cluster.group.pk),
            lambda: run_tick(cluster.group.pk),
            lambda pending=pending: [cancel(each.pk) for each in pending[:2]],
            lambda scheduled=scheduled: [end(each.pk) for each in scheduled[::2]],
            lambda scheduled=scheduled: [end(each.pk) for each in reversed(scheduled)],
        )
        assert_ledger_is_exact()


def cancel(session_id: UUID) -> None:
    transitions.transition(session_id, to=Status.CANCELLED, reason=Reason.USER_REQUESTED, actor=SYSTEM)


def end(session_id: UUID) -> None:
    try:
        transitions.transition(session_id, to=Status.TERMINATING, reason=Reason.USER_REQUESTED, actor=SYSTEM)
        transitions.finish(session_id, actor=SYSTEM)
    except transitions.IllegalTransition:
        return  # the other thread ended it first


def test_a_worker_whose_connection_dies_in_the_commit_leaves_nothing_behind(cluster):
    agent = cluster.add_agent(SMALL)
    session = cluster.add_pending(SMALL)
    outcome: list[object] = []
    tick = threading.Thread(
        target=lambda: outcome.extend(at_the_same_time(lambda: run_tick(cluster.group.pk)))
    )

    with held_open(lambda: list(AgentSlot.objects.filter(agent=agent).select_for_update())):
        tick.start()
        assert wait_until(terminate_waiting_backends)
        tick.join(timeout=10)

    assert isinstance(outcome[0], OperationalError)
    assert ComputeSession.objects.get().status == Status.PENDING
    assert_ledger_is_exact()
    assert run_tick(cluster.group.pk) == [session.pk]
    assert_ledger_is_exact()


def terminate_waiting_backends() -> int:
    """Kill the connections of this database that wait for a lock; how many there were."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return len(cursor.fetchall())


def test_a_plan_and_a_change_of_its_group_at_once_both_count(cluster):
    cluster.add_agent(SMALL)
    session = cluster.add_pending(SMALL)
    decided = plan(read_snapshot(cluster.group.pk), clock.now())
    is_paused = {"is_active": False}

    def pause() -> object:
        return service.update_resource_group(actor=SYSTEM, group_id=cluster.group.pk, changes=is_paused)

    results = at_the_same_time(lambda: commit_plan(decided), pause)

    committed, paused = results
    assert committed == [session.pk] or isinstance(committed, (StalePlan, GroupBusy))
    assert paused == cluster.group
    assert run_state(ResourceGroup.objects.get(pk=cluster.group.pk)).epoch == 1 + (committed == [session.pk])
    assert_ledger_is_exact()
