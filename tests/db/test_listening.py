"""Workers that tick hear of newcomers themselves, and whoever comes while a tick is in progress is placed on what it leaves."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from types import SimpleNamespace
from uuid import UUID

import pytest
import redis
from celery import Celery
from django.db import connection

import portal.celery
from agents.models import AgentSlot
from common.dispatch import TaskName
from common.events import announce
from common.outages import Outage
from common.redis import client as redis_client
from scheduler import asking, listening, newcomers
from scheduler.commit import StalePlan, lock_plans
from scheduler.snapshot import read_snapshot
from scheduler.tick import run_tick
from sessions_app.events import SessionEnqueued
from sessions_app.states import Status
from tests.db.test_newcomers import SMALL, forget, status
from tests.db.test_newcomers import cluster as cluster
from tests.db.test_scheduler_concurrency import held_open
from tests.factories_scheduler import make_cluster
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]


@pytest.fixture(autouse=True)
def hears_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a worker ends when it has heard."""
    monkeypatch.setattr(listening, "HEARS_FOR_S", 0.1)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[TaskName]:
    names: list[TaskName] = []
    monkeypatch.setattr(asking, "enqueue_on_commit", lambda name, **_: names.append(name))
    return names


def hear_and_place() -> None:
    """What a worker does in a round."""
    for group_id, session_ids in asking.hear(wait_s=1).items():
        listening.place_heard(group_id, session_ids)


def test_whoever_is_enqueued_is_heard_of_and_placed_with_those_that_came_before(cluster, sent):
    sessions = [cluster.add_pending(SMALL) for _ in range(2)]
    other = make_cluster()
    for group, session in (
        (other.group, other.add_pending(SMALL)),
        *((cluster.group, each) for each in sessions),
    ):
        announce(SessionEnqueued(session_id=session.pk, resource_group_id=group.pk))
    hear_and_place()
    assert {status(session) for session in sessions} == {Status.SCHEDULED}
    assert sent == [TaskName.TICK]  # of the group that nobody has ticked yet
    assert asking.hear(wait_s=0) == {}


def test_where_a_whole_tick_is_needed_one_is_asked_for(cluster, sent):
    forget(cluster)
    asking.request_placement(cluster.group.pk, cluster.add_pending(SMALL).pk)
    hear_and_place()
    assert sent == [TaskName.TICK]


def test_newcomers_wait_for_a_tick_in_progress_and_are_placed_on_what_it_leaves(cluster, sent):
    session = cluster.add_pending(SMALL)
    forget(cluster)
    with listening.turn_of(cluster.group.pk):
        listening.place_heard(cluster.group.pk, [session.pk])
        assert status(session) == Status.PENDING
        newcomers.remember(read_snapshot(cluster.group.pk), None, read_at=monotonic())
    assert wait_until(lambda: status(session) == Status.SCHEDULED)
    assert sent == []


def test_newcomers_are_not_forgotten_with_a_tick_that_fails(cluster, sent):
    forget(cluster)

    def fail() -> None:
        with listening.turn_of(cluster.group.pk):
            listening.place_heard(cluster.group.pk, [cluster.add_pending(SMALL).pk])
            raise StalePlan

    with pytest.raises(StalePlan):
        fail()
    assert wait_until(lambda: sent == [TaskName.TICK])


def test_who_comes_as_a_tick_ends_is_not_forgotten(cluster, sent, monkeypatch):
    """It looked for whoever arrived before this one had said so."""
    session = cluster.add_pending(SMALL)
    forget(cluster)
    turn = listening._turn_of(cluster.group.pk)
    turn.lock.acquire()
    monkeypatch.setattr(turn, "arrived", LateList(turn.lock.release))
    listening.place_heard(cluster.group.pk, [session.pk])
    assert wait_until(lambda: sent == [TaskName.TICK])


class LateList(deque[UUID]):
    """Whoever has the turn gives it back before anybody is added."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        super().__init__()
        self._give_back = give_back

    def extend(self, session_ids: Iterable[UUID]) -> None:
        self._give_back()
        super().extend(session_ids)


def test_what_cannot_be_read_is_passed_over(cluster):
    session = cluster.add_pending(SMALL)
    redis_client().rpush(asking.newcomers_key(), "7 nobody", "nonsense", b"\xff \xff")
    asking.request_placement(cluster.group.pk, session.pk)
    assert asking.hear(wait_s=1) == {cluster.group.pk: [session.pk]}


def test_of_those_that_nobody_hears_of_the_last_are_kept(cluster, monkeypatch):
    monkeypatch.setattr(asking, "MOST_KEPT", 2)
    sessions = [cluster.add_pending(SMALL) for _ in range(3)]
    for session in sessions:
        asking.request_placement(cluster.group.pk, session.pk)
    assert 0 < redis_client().ttl(asking.newcomers_key()) <= asking.KEPT_FOR_S
    assert asking.hear(wait_s=1) == {cluster.group.pk: [each.pk for each in sessions[1:]]}


def test_without_redis_the_timer_finds_the_newcomer(cluster, sent, monkeypatch):
    def lost() -> None:
        raise Outage("Redis does not answer.")

    monkeypatch.setattr(asking, "demand_redis", lost)
    session = cluster.add_pending(SMALL)
    asking.request_placement(cluster.group.pk, session.pk)
    assert asking.hear(wait_s=0) == {}
    assert run_tick(cluster.group.pk) == [session.pk]


@contextmanager
def a_worker() -> Iterator[None]:
    """Listens, until the end of the block."""
    is_over = Event()
    thread = Thread(target=listening.listen, args=(is_over,))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(timeout=30)
    assert not thread.is_alive()


def test_a_worker_places_whoever_comes_while_it_listens(cluster):
    with a_worker():
        for _ in range(2):
            session = cluster.add_pending(SMALL)
            asking.request_placement(cluster.group.pk, session.pk)
            assert wait_until(lambda session=session: status(session) == Status.SCHEDULED)


def test_a_worker_listens_on_after_redis_was_away(cluster, monkeypatch):
    monkeypatch.setattr(listening, "DEAF_FOR_S", 0.01)
    faults: list[Exception] = [
        redis.ConnectionError("Redis is away."),
        RuntimeError("It was something else."),
    ]

    def hear_at_last(wait_s: float) -> dict[int, list[UUID]]:
        if faults:
            raise faults.pop()
        return asking.hear(wait_s)

    monkeypatch.setattr(listening, "hear", hear_at_last)
    with a_worker():
        session = cluster.add_pending(SMALL)
        asking.request_placement(cluster.group.pk, session.pk)
        assert wait_until(lambda: status(session) == Status.SCHEDULED)
    assert faults == []


def test_a_worker_listens_on_after_the_database_was_away(cluster, sent):
    with a_worker():
        first = cluster.add_pending(SMALL)
        asking.request_placement(cluster.group.pk, first.pk)
        assert wait_until(lambda: status(first) == Status.SCHEDULED)
        with connection.cursor() as cursor:  # as a restart of PostgreSQL does
            cursor.execute(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'idle'
                """
            )
        second = cluster.add_pending(SMALL)
        asking.request_placement(cluster.group.pk, second.pk)
        # What it knew of the group is in doubt, as after any failure.
        assert wait_until(lambda: sent == [TaskName.TICK])
        run_tick(cluster.group.pk)
        third = cluster.add_pending(SMALL)
        asking.request_placement(cluster.group.pk, third.pk)
        assert wait_until(lambda: status(third) == Status.SCHEDULED)


@pytest.mark.parametrize("what", ["plans", "rows"])
def test_whoever_waits_for_one_group_holds_up_no_other(cluster, sent, what):
    busy = make_cluster()
    agent = busy.add_agent(SMALL)
    run_tick(busy.group.pk)
    first, second = busy.add_pending(SMALL), cluster.add_pending(SMALL)
    held = {
        "plans": lambda: lock_plans(busy.group.pk),
        "rows": lambda: AgentSlot.objects.select_for_update().get(agent=agent, slot_name="cpu"),
    }
    with held_open(held[what]), a_worker():
        asking.request_placement(busy.group.pk, first.pk)
        asking.request_placement(cluster.group.pk, second.pk)
        assert wait_until(lambda: status(second) == Status.SCHEDULED)
        assert status(first) == Status.PENDING
        # What was left of the group is in doubt now: a tick decides, when it has its turn.
        assert wait_until(lambda: sent == [TaskName.TICK])


def test_who_is_being_placed_by_another_thread_is_left_to_patience(cluster):
    session = cluster.add_pending(SMALL)
    memory = newcomers._memories.get(cluster.group.pk)
    with a_worker():
        with memory.lock:
            asking.request_placement(cluster.group.pk, session.pk)
            assert wait_until(lambda: not redis_client().exists(asking.newcomers_key()))
        assert wait_until(lambda: status(session) == Status.SCHEDULED)


def test_what_fails_twice_is_left_to_the_timer(cluster, monkeypatch, sent):
    failed: list[float | None] = []

    def fail(group_id: int, session_ids: object, wait_s: float | None) -> bool:
        failed.append(wait_s)
        raise RuntimeError("It fails.")

    monkeypatch.setattr(listening, "place_newcomers", fail)
    with a_worker():
        asking.request_placement(cluster.group.pk, cluster.add_pending(SMALL).pk)
        assert wait_until(lambda: failed == [listening.HURRIES_S, None])
        monkeypatch.setattr(listening, "place_newcomers", newcomers.place_newcomers)
        session = cluster.add_pending(SMALL)
        asking.request_placement(cluster.group.pk, session.pk)
        assert wait_until(lambda: status(session) == Status.SCHEDULED)
    assert sent == []


@pytest.mark.parametrize(("queues", "listens"), [("tick,default", True), ("launch", False)])
def test_the_workers_that_tick_are_those_that_listen(queues, listens, monkeypatch):
    worker, is_over = Celery("berth"), Event()
    worker.conf.task_queues = portal.celery.app.conf.task_queues
    worker.amqp.queues.select(queues.split(","))
    monkeypatch.setattr(portal.celery, "_is_over", is_over)
    turns: list[float] = []
    monkeypatch.setattr(sys, "setswitchinterval", turns.append)
    heard = Event()
    monkeypatch.setattr(listening, "listen", lambda is_over: heard.set())
    portal.celery.listen_for_newcomers(SimpleNamespace(app=worker))
    if listens:
        assert heard.wait(timeout=10)
    assert heard.is_set() == listens
    assert len(portal.celery._listeners) == len(turns) == int(listens)
    portal.celery.listen_no_more()
    assert is_over.is_set()
    portal.celery.wait_for_listeners()
    assert portal.celery._listeners == []
