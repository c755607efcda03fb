"""Tick requests are sent at once if the group is idle, merged otherwise, and never lost for long."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from queue import Queue
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from common import clock
from common.db.advisory_locks import try_exclusive
from common.messaging import cache
from common.messaging.dispatch import TaskName
from common.messaging.events import publish
from common.messaging.redis import client as redis_client
from common.resilience.circuit_breaker import Outage
from scheduler import tasks, triggers
from scheduler.commit.plan_commit import StalePlan
from scheduler.triggers import BUSY_RETRY_S, MAX_PAUSE_S, end_tick, pause_left_s, request_tick
from sessions_app.core.states import Status
from sessions_app.events import SessionEnqueued
from sessions_app.models import ComputeSession
from tests.db.scheduler.test_concurrent_ticks import assert_ledger_is_exact
from tests.factories_scheduler import Cluster, make_cluster
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]
SMALL = {"cpu": 1000, "mem": 2**30}


@pytest.fixture
def cluster(transactional_db: None) -> Cluster:
    return make_cluster()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    """Ticks sent to the workers: of which group, and after how many seconds."""
    messages: list[tuple[int, float]] = []

    def send(name: TaskName, *, resource_group_id: int, countdown_s: float = 0.0) -> None:
        assert name is TaskName.TICK
        messages.append((resource_group_id, countdown_s))

    monkeypatch.setattr(triggers, "enqueue_on_commit", send)
    return messages


@pytest.fixture
def ticked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Groups that were ticked, by ticks that do nothing."""
    group_ids: list[int] = []
    monkeypatch.setattr(tasks, "run_tick", group_ids.append)
    return group_ids


@contextmanager
def ticked_elsewhere(group_id: int) -> Iterator[None]:
    """Another worker is ticking the group."""
    is_locked, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with try_exclusive(f"ticks of group {group_id}") as is_mine:
            assert is_mine
            is_locked.set()
            may_end.wait(timeout=30)
        connections.close_all()

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_locked.wait(timeout=30)
    try:
        yield
    finally:
        may_end.set()
        thread.join(timeout=30)


def test_the_first_request_is_sent_at_once_and_others_are_one_with_it_until_the_tick_begins(sent, ticked):
    request_tick(7)
    request_tick(7)
    request_tick(8)
    assert sent == [(7, 0.0), (8, 0.0)]
    tasks.tick(7)
    request_tick(7)
    assert sent[2:] == [(7, 0.0)]
    assert ticked == [7]


def test_requests_during_a_tick_lead_to_exactly_one_more(sent, monkeypatch):
    ticks = []

    def tick_while_sessions_come(group_id: int) -> None:
        ticks.append(group_id)
        if len(ticks) == 1:
            request_tick(group_id)
            request_tick(group_id)

    monkeypatch.setattr(tasks, "run_tick", tick_while_sessions_come)
    request_tick(7)
    while sent:
        group_id, countdown_s = sent.pop(0)
        with clock.frozen_at(clock.now() + timedelta(seconds=countdown_s)):
            tasks.tick(group_id)
    assert ticks == [7, 7]


def test_while_another_worker_ticks_the_group_the_task_comes_again_and_requests_are_one_with_it(sent, ticked):
    request_tick(7)
    with ticked_elsewhere(7):
        tasks.tick(7)
        request_tick(7)
        assert (sent, ticked) == ([(7, 0.0), (7, BUSY_RETRY_S)], [])
        tasks.tick(8)
        assert ticked == [8], "other groups do not wait"
    tasks.tick(7)
    assert ticked == [8, 7]


def test_the_next_tick_begins_after_a_pause_as_long_as_the_last_took(sent, ticked):
    now = clock.now()
    with clock.frozen_at(now):
        end_tick(7, took_s=0.4)
        tasks.tick(7)
        request_tick(7)
        assert (ticked, sent) == ([], [(7, pytest.approx(0.4, abs=0.001))])
        end_tick(8, took_s=20.0)
        assert pause_left_s(8) == pytest.approx(MAX_PAUSE_S, abs=0.001)
    with clock.frozen_at(now + timedelta(seconds=0.41)):
        tasks.tick(7)
    assert ticked == [7]


def test_a_stale_tick_is_followed_by_a_pause_and_requested_once(sent, monkeypatch):
    def fail(group_id: int) -> None:
        raise StalePlan

    ended = []
    monkeypatch.setattr(tasks, "run_tick", fail)
    monkeypatch.setattr(tasks, "end_tick", lambda group_id, took_s: ended.append((group_id, list(sent))))
    tasks.tick(7)
    assert ended == [(7, [])]
    request_tick(7)
    assert sent == [(7, 0.0)]


def test_failed_tick_is_followed_by_a_pause_too_and_blocks_no_request(sent, monkeypatch):
    def fail(group_id: int) -> None:
        raise ValueError(group_id)

    ended = []
    monkeypatch.setattr(tasks, "run_tick", fail)
    monkeypatch.setattr(tasks, "end_tick", lambda group_id, took_s: ended.append(group_id))
    for _ in range(2):
        with pytest.raises(ValueError, match="7"):
            tasks.tick(7)
    assert ended == [7, 7]
    request_tick(7)
    assert sent == [(7, 0.0)]


def test_lost_task_delays_further_requests_for_a_while_only(sent, monkeypatch):
    monkeypatch.setattr(triggers, "REQUESTED_FOR_S", 1)
    request_tick(7)

    def request_once_more() -> bool:
        request_tick(7)
        return len(sent) == 2

    assert wait_until(request_once_more)


def test_a_clock_that_is_set_back_prolongs_no_pause(sent, ticked):
    with clock.frozen_at(clock.now() + timedelta(hours=1)):
        end_tick(7, took_s=0.4)
    assert pause_left_s(7) <= MAX_PAUSE_S
    cache.delete_deduplication_keys()
    assert pause_left_s(7) == 0


def test_a_session_that_is_enqueued_requests_a_tick_of_its_group(cluster, sent):
    publish(SessionEnqueued(session_id=cluster.add_pending(SMALL).pk, resource_group_id=cluster.group.pk))
    assert sent == [(cluster.group.pk, 0.0)]


def test_a_request_from_any_thread_reaches_the_queue_of_the_ticks():
    thread = threading.Thread(target=request_tick, args=(7,))
    thread.start()
    thread.join(timeout=10)
    triggers.postpone_tick(7, 0.5)
    queue = redis_client().lrange(f"berth:{settings.BERTH_INSTALLATION}:tick", 0, -1)
    later, now = [json.loads(message)["headers"] for message in queue]
    assert [each["task"] for each in (now, later)] == [TaskName.TICK] * 2
    assert now["eta"] is None
    assert later["eta"]


def test_without_redis_ticks_run_and_the_timer_alone_is_right(cluster, monkeypatch):
    def lost() -> None:
        raise Outage("Redis does not answer.")

    monkeypatch.setattr(cache, "check_redis", lost)
    cluster.add_agent(SMALL)
    session = cluster.add_pending(SMALL)
    monkeypatch.setattr(triggers, "enqueue_on_commit", lambda name, **arguments: tasks.tick(**arguments))
    tasks.tick()
    assert ComputeSession.objects.get(pk=session.pk).status == Status.SCHEDULED


def test_session_submitted_during_ticks_of_several_workers_is_placed_soon(cluster, monkeypatch):
    """Workers take what is sent when its time has come, in threads with connections of their own."""
    messages: Queue[dict[str, Any] | None] = Queue()

    def send(name: TaskName, *, countdown_s: float = 0.0, **arguments: Any) -> None:
        threading.Timer(countdown_s, messages.put, [arguments]).start()

    def work() -> None:
        while (arguments := messages.get()) is not None:
            tasks.tick(**arguments)
        connections.close_all()

    monkeypatch.setattr(triggers, "enqueue_on_commit", send)
    for _ in range(3):
        cluster.add_agent({"cpu": 4000, "mem": 8 * 2**30})
    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(12):
            session = cluster.add_pending(SMALL)
            publish(SessionEnqueued(session_id=session.pk, resource_group_id=cluster.group.pk))
        wait_until(lambda: not ComputeSession.objects.exclude(status=Status.SCHEDULED).exists())
    finally:
        for _ in workers:
            messages.put(None)
        for worker in workers:
            worker.join(timeout=30)
    assert not any(worker.is_alive() for worker in workers)
    assert_ledger_is_exact()
