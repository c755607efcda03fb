"""The tick as background work. News ask for one of their group, a timer for all; either alone is right."""

from threading import Lock
from uuid import UUID

import redis
import structlog
from celery import shared_task
from django.conf import settings
from django.core.cache import cache

from common.dispatch import TaskName, enqueue_on_commit
from common.locks import try_exclusive
from common.outages import Outage
from common.pauses import during
from common.redis import client, demand_redis
from scheduler import newcomers
from scheduler.commit import GroupBusy, StalePlan
from scheduler.kept_ticks import forget_ticks
from scheduler.snapshot import groups_with_pending_sessions
from scheduler.tick import run_tick

log = structlog.get_logger(__name__)
_ticking: dict[int, Lock] = {}  # by group, in this process: two ticks would only make each other's plan stale
ASKED_FOR_S = 5  # if a task is lost, the next timer may ask again
KEPT_FOR_S = 60  # ids of newcomers; until then the timer has found them
MOST_TAKEN = 10_000


def request_tick(resource_group_id: int) -> None:
    """Have a tick of this group run soon. Requests that come before it begins are one."""
    if cache.add(_asked_key(resource_group_id), 1, timeout=ASKED_FOR_S):
        enqueue_on_commit(TaskName.TICK, resource_group_id=resource_group_id)


def request_placement(resource_group_id: int, session_id: UUID) -> None:
    """Have this session decided soon. Requests that come before somebody takes them up are one."""
    newcomers_key = _newcomers_key(resource_group_id)
    try:
        demand_redis()
        pipeline = client().pipeline(transaction=False)
        pipeline.rpush(newcomers_key, str(session_id))
        pipeline.expire(newcomers_key, KEPT_FOR_S)
        pipeline.set(_placement_key(resource_group_id), 1, ex=ASKED_FOR_S, nx=True)
        *_, is_first = pipeline.execute()
    except (redis.RedisError, Outage) as error:
        log.warning("tick.newcomer_lost", session_id=str(session_id), error=str(error))  # the timer finds it
        return
    if is_first:
        enqueue_on_commit(TaskName.PLACE_NEWCOMERS, resource_group_id=resource_group_id)


@shared_task(
    name=TaskName.TICK.value,
    autoretry_for=(GroupBusy, StalePlan),
    throws=(GroupBusy, StalePlan),
    max_retries=3,
    retry_backoff=1,
    soft_time_limit=60,
    time_limit=90,
)
def tick(resource_group_id: int | None = None) -> None:
    """Tick one group; without one, ask for a tick of each group in which something waits."""
    if resource_group_id is None:
        for group_id in groups_with_pending_sessions():
            request_tick(group_id)
        return
    with _one_at_a_time(resource_group_id):
        # Before the snapshot is read: a session enqueued from now on asks for a tick of its own.
        cache.delete(_asked_key(resource_group_id))
        with during("tick"):
            run_tick(resource_group_id)


@shared_task(name=TaskName.PLACE_NEWCOMERS.value, soft_time_limit=60, time_limit=90)
def place_newcomers(resource_group_id: int) -> None:
    """Place sessions that came lately; where that is in doubt, ask for a tick of the group."""
    session_ids = _take_newcomers(resource_group_id)
    with during("tick"):
        is_done = newcomers.place_newcomers(resource_group_id, session_ids)
        if not is_done and _one_at_a_time(resource_group_id).locked():
            with _one_at_a_time(
                resource_group_id
            ):  # a tick that began before they came leaves what they are placed on
                pass
            is_done = newcomers.place_newcomers(resource_group_id, session_ids)
    if not is_done:
        request_tick(resource_group_id)


@shared_task(name=TaskName.FORGET_TICKS.value, soft_time_limit=300, time_limit=330)
def forget_old_ticks() -> None:
    with try_exclusive("scheduler.forget_ticks") as is_mine:
        if is_mine:
            forget_ticks()


def _take_newcomers(resource_group_id: int) -> list[UUID]:
    """Whoever comes from now on asks for a placement of its own."""
    pipeline = client().pipeline(transaction=False)
    pipeline.delete(_placement_key(resource_group_id))
    pipeline.lpop(_newcomers_key(resource_group_id), MOST_TAKEN)
    _, taken = pipeline.execute()
    return [UUID(each.decode()) for each in taken or ()]


def _one_at_a_time(resource_group_id: int) -> Lock:
    return _ticking.setdefault(resource_group_id, Lock())


def _asked_key(resource_group_id: int) -> str:
    return f"tick-asked:{resource_group_id}"


def _placement_key(resource_group_id: int) -> str:
    return f"berth:{settings.BERTH_INSTALLATION}:placement-asked:{resource_group_id}"


def _newcomers_key(resource_group_id: int) -> str:
    return f"berth:{settings.BERTH_INSTALLATION}:newcomers:{resource_group_id}"
