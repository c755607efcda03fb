"""One more session beside those that wait is placed on what the last tick left, and a whole tick where that is in doubt."""

from threading import Thread
from time import monotonic

import pytest
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext

from agents import lifecycle as agents_lifecycle
from agents.models import AgentSlot, ResourceGroup
from agents.states import AgentState
from common import clock
from common.actors import SYSTEM
from scheduler import commit, listening, newcomers, tasks
from scheduler.commit import GroupBusy, commit_plan
from scheduler.engine import plan
from scheduler.kept import KeptByGroup
from scheduler.newcomers import place_newcomers
from scheduler.snapshot import read_snapshot
from scheduler.tick import run_tick
from sessions_app import lifecycle
from sessions_app.models import ComputeSession, KernelAllocation
from sessions_app.states import Reason, Status
from tests.db.test_scheduler_concurrency import assert_ledger_is_exact, at_the_same_time, held_open
from tests.factories_scheduler import Cluster, make_cluster
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]
GIB = 2**30
SMALL = {"cpu": 1000, "mem": GIB}
LARGE = {"cpu": 9000, "mem": GIB}


@pytest.fixture
def cluster(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two agents, one that waits for more than they have, and what a tick left."""
    monkeypatch.setattr(newcomers, "_memories", KeptByGroup(for_s=60))
    cluster = make_cluster()
    for _ in range(2):
        cluster.add_agent({"cpu": 4000, "mem": 8 * GIB})
    cluster.add_pending(LARGE, age_s=60)
    run_tick(cluster.group.pk)
    return cluster


def status(session: ComputeSession) -> str:
    return str(ComputeSession.objects.get(pk=session.pk).status)


def place(cluster: Cluster, *sessions: ComputeSession) -> bool:
    return place_newcomers(cluster.group.pk, [session.pk for session in sessions])


def forget(cluster: Cluster) -> None:
    """A worker that has not ticked this group lately."""
    newcomers._memories.take(cluster.group.pk)


def epoch(cluster: Cluster) -> int:
    return int(ResourceGroup.objects.get(pk=cluster.group.pk).epoch)


def test_a_newcomer_is_placed_and_the_last_plan_remains_the_last(cluster):
    before = epoch(cluster)
    first, second = cluster.add_pending(SMALL), cluster.add_pending(SMALL, kernels=2)
    assert place(cluster, first, second)
    assert (status(first), status(second), epoch(cluster)) == (Status.SCHEDULED, Status.SCHEDULED, before)
    assert place(cluster, cluster.add_pending(SMALL))
    assert_ledger_is_exact()


def test_a_newcomer_costs_the_same_however_many_wait_and_however_many_machines_there_are(cluster):
    def queries() -> int:
        session = cluster.add_pending(SMALL)
        with CaptureQueriesContext(connection) as captured:
            assert place(cluster, session)
        return len(captured)

    few = queries()
    assert few == 9  # two of them BEGIN and COMMIT
    for _ in range(5):
        cluster.add_agent({"cpu": 4000, "mem": 8 * GIB})
        cluster.add_pending(LARGE)
    run_tick(cluster.group.pk)
    assert queries() == few


def test_its_statements_are_planned_once_also_where_machines_are_known_to_hold_much(cluster):
    """PostgreSQL plans anew each time what it finds cheaper for the lists that it sees."""
    for _ in range(20):
        cluster.add_agent({"cpu": 400_000, "mem": 800 * GIB})
    cluster.add_pending({"cpu": 1000, "mem": GIB}, kernels=300)
    run_tick(cluster.group.pk)
    with connection.cursor() as cursor:
        for table in (
            "sessions_app_kernelallocation",
            "sessions_app_kernel",
            "agents_agent",
            "agents_agentslot",
        ):
            cursor.execute(f"ANALYZE {table}")
        cursor.execute("DEALLOCATE ALL")
    connection.connection._prepared.clear()
    for _ in range(10):
        assert place(cluster, cluster.add_pending(SMALL))
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements WHERE custom_plans > 5")
        assert cursor.fetchall() == []
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE generic_plans > 3")
        assert cursor.fetchone() == (4,)


@pytest.mark.parametrize(
    ("scheduler", "placed"),
    [("fifo", [True, False]), ("lifo", [False] * 2), ("drf", [False] * 2), ("fair_share", [False] * 2)],
)
def test_room_for_some_of_the_newcomers_is_shared_out_by_the_policy_of_the_group(cluster, scheduler, placed):
    cluster.group.scheduler = scheduler
    cluster.group.save(update_fields=["scheduler"])
    run_tick(cluster.group.pk)
    first, second = [
        cluster.add_pending({"cpu": 3000, "mem": GIB}, kernels=2, age_s=age_s) for age_s in (9, 0)
    ]
    assert not place(cluster, first, second)
    assert [status(each) == Status.SCHEDULED for each in (first, second)] == placed


def test_without_what_a_tick_left_or_with_many_at_once_a_whole_tick_is_needed(cluster, monkeypatch):
    session = cluster.add_pending(SMALL)
    forget(cluster)
    assert not place(cluster, session)
    run_tick(cluster.group.pk)
    many = [cluster.add_pending(SMALL) for _ in range(newcomers.MOST + 1)]
    assert not place(cluster, *many)
    monkeypatch.setattr(newcomers, "TRUSTED_FOR_S", -1.0)
    assert not place(cluster, many[0])
    assert status(many[0]) == Status.PENDING


def drain_all(cluster: Cluster) -> None:
    for agent in cluster.group.agents.all():
        agents_lifecycle.transition(agent.pk, to=AgentState.DRAINING, actor=SYSTEM)


@pytest.mark.parametrize(
    "change",
    [
        drain_all,
        lambda cluster: AgentSlot.objects.update(capacity=500),
        lambda cluster: ResourceGroup.objects.update(epoch=99),
        lambda cluster: ResourceGroup.objects.update(strategy="dispersed"),
    ],
    ids=["draining", "smaller", "planned elsewhere", "other rules"],
)
def test_what_changed_since_is_found_out_and_nothing_is_placed(cluster, change):
    session = cluster.add_pending(SMALL)
    change(cluster)
    assert not place(cluster, session)
    assert status(session) == Status.PENDING
    assert not KernelAllocation.objects.exists()
    assert not place(cluster, session)  # forgotten: only a whole tick leaves something new


def test_a_newcomer_that_the_database_refuses_is_left_to_a_whole_tick(cluster, monkeypatch):
    def refuse(*_: object) -> None:
        raise IntegrityError("within_limits")

    session = cluster.add_pending(SMALL)
    with monkeypatch.context() as broken:
        broken.setattr(commit, "_allocate", refuse)
        assert not place(cluster, session)
    assert run_tick(cluster.group.pk) == [session.pk]


def test_a_crash_in_the_commit_leaves_nothing_behind_and_is_trusted_with_nothing(cluster, monkeypatch):
    def cut(*_: object) -> None:
        raise RuntimeError("power cut")

    session = cluster.add_pending(SMALL)
    with monkeypatch.context() as broken:
        broken.setattr(commit, "_allocate", cut)
        with pytest.raises(RuntimeError):
            place(cluster, session)
    assert status(session) == Status.PENDING
    assert not place(cluster, session)
    assert run_tick(cluster.group.pk) == [session.pk]


def test_who_finds_no_room_is_told_why_at_once_in_a_short_queue_and_by_the_timer_in_a_long_one(
    cluster, monkeypatch
):
    session = cluster.add_pending(LARGE)
    assert not place(cluster, session)
    monkeypatch.setattr(newcomers, "LONG_QUEUE", 0)
    run_tick(cluster.group.pk)
    assert place(cluster, cluster.add_pending(LARGE))
    assert status(session) == Status.PENDING


def test_nobody_passes_a_newcomer_that_found_no_room_before_a_plan_has_kept_some_for_it(cluster):
    assert place(cluster, cluster.add_pending(SMALL))
    elder = cluster.add_pending({"cpu": 4000, "mem": GIB}, kernels=2)
    younger = cluster.add_pending(SMALL)
    assert not place(cluster, elder)
    assert not place(cluster, younger)
    assert (status(elder), status(younger)) == (Status.PENDING, Status.PENDING)
    run_tick(cluster.group.pk)
    assert status(younger) == Status.SCHEDULED
    assert place(cluster, cluster.add_pending(SMALL))


def test_nobody_passes_it_either_on_what_a_tick_left_that_had_not_read_it(cluster):
    assert place(cluster, cluster.add_pending(SMALL))
    read_at, snapshot = monotonic(), read_snapshot(cluster.group.pk)
    elder = cluster.add_pending({"cpu": 4000, "mem": GIB}, kernels=2)
    younger = cluster.add_pending(SMALL)
    assert not place(cluster, elder)
    newcomers.remember(snapshot, None, read_at=read_at)
    assert not place(cluster, younger)
    run_tick(cluster.group.pk)
    assert place(cluster, cluster.add_pending(SMALL))


def test_who_was_cancelled_meanwhile_is_left_alone(cluster):
    session = cluster.add_pending(SMALL)
    lifecycle.transition(session.pk, to=Status.CANCELLED, reason=Reason.USER_REQUESTED, actor=SYSTEM)
    assert place(cluster, session)
    assert status(session) == Status.CANCELLED


def hold(session: ComputeSession) -> ComputeSession:
    return ComputeSession.objects.select_for_update().get(pk=session.pk)


def test_one_whom_somebody_else_holds_is_left_to_a_whole_tick_and_takes_no_room():
    cluster = make_cluster()
    cluster.add_agent(SMALL)
    run_tick(cluster.group.pk)
    before = monotonic()
    session = cluster.add_pending(SMALL)
    with held_open(lambda: hold(session)):
        assert not place(cluster, session)
    assert status(session) == Status.PENDING
    newcomers.remember(read_snapshot(cluster.group.pk), None, read_at=before)
    assert place(cluster, session)
    assert status(session) == Status.SCHEDULED


def commit_now(cluster: Cluster) -> None:
    commit_plan(plan(read_snapshot(cluster.group.pk), clock.now()))


def test_newcomers_wait_for_a_commit_and_are_left_to_a_whole_tick_if_it_does_not_end(cluster):
    session = cluster.add_pending(SMALL)
    with held_open(lambda: commit_now(cluster)), pytest.raises(GroupBusy):
        place(cluster, session)
    assert not place(cluster, session)


def test_newcomers_of_one_group_do_not_wait_for_those_of_another(cluster, monkeypatch):
    monkeypatch.setattr(commit, "GROUP_WAIT_S", 30)
    busy, session = make_cluster(), cluster.add_pending(SMALL)
    busy.add_agent(SMALL)
    run_tick(busy.group.pk)
    waiting = Thread(target=lambda: at_the_same_time(lambda: place(busy, busy.add_pending(SMALL))))
    with held_open(lambda: commit_now(busy)):
        waiting.start()
        assert wait_until(is_somebody_waiting)
        assert place(cluster, session)
        assert waiting.is_alive()
        assert is_somebody_waiting()
    waiting.join(timeout=30)


def test_a_tick_of_one_group_does_not_wait_for_that_of_another(cluster):
    session = cluster.add_pending(SMALL)
    with listening.turn_of(make_cluster().group.pk):
        tasks.tick(cluster.group.pk)
    assert status(session) == Status.SCHEDULED


def test_a_group_where_nobody_waits_has_room_for_newcomers_too():
    cluster = make_cluster()
    cluster.add_agent(SMALL)
    run_tick(cluster.group.pk)
    session = cluster.add_pending(SMALL)
    assert place(cluster, session)
    assert status(session) == Status.SCHEDULED


def test_newcomers_beside_ticks_and_ends_keep_the_ledger_exact(cluster):
    for _ in range(4):
        sessions = [cluster.add_pending(SMALL) for _ in range(4)]
        scheduled = list(ComputeSession.objects.filter(status=Status.SCHEDULED))
        results = at_the_same_time(
            lambda: run_tick(cluster.group.pk),
            lambda sessions=sessions: place(cluster, *sessions[:2]),
            lambda sessions=sessions: place(cluster, *sessions[1:]),
            lambda scheduled=scheduled: [end(session) for session in scheduled[::2]],
        )
        assert isinstance(results[0], list), f"The tick was thrown away: {results[0]!r}"
        assert_ledger_is_exact()


def test_a_tick_waits_for_the_commit_of_a_newcomer(cluster, monkeypatch):
    monkeypatch.setattr(commit, "GROUP_WAIT_S", 30)
    newcomer, other = cluster.add_pending(SMALL, age_s=10), cluster.add_pending(SMALL)
    results: list[object] = []
    tick = Thread(target=lambda: results.extend(at_the_same_time(lambda: run_tick(cluster.group.pk))))
    with held_open(lambda: place(cluster, newcomer)):
        tick.start()
        assert wait_until(lambda: is_somebody_waiting() or results)
    tick.join(timeout=30)
    assert results == [[other.pk]]
    assert_ledger_is_exact()


def is_somebody_waiting() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT EXISTS (SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
                           WHERE locktype = 'advisory' AND NOT granted AND datname = current_database())
            """
        )
        return bool(cursor.fetchone()[0])


def end(session: ComputeSession) -> None:
    lifecycle.transition(session.pk, to=Status.TERMINATING, reason=Reason.USER_REQUESTED, actor=SYSTEM)
    lifecycle.finish(session.pk, actor=SYSTEM)
