"""What the workers that tick are asked for: a tick of a group by a message of Celery, the place of a newcomer by a list that they listen
to. Either may be lost: a timer asks for all."""

from collections import defaultdict
from uuid import UUID

import redis
import structlog
from django.conf import settings
from django.core.cache import cache

from common.dispatch import TaskName, enqueue_on_commit
from common.outages import Outage
from common.redis import client, demand_redis

log = structlog.get_logger(__name__)
ASKED_FOR_S = 5  # if a task is lost, the next timer may ask again
KEPT_FOR_S = 60  # newcomers that nobody hears of; until then the timer has found them
MOST_KEPT = 10_000


def request_tick(resource_group_id: int) -> None:
    """Have a tick of this group run soon. Requests that come before it begins are one."""
    if cache.add(_asked_key(resource_group_id), 1, timeout=ASKED_FOR_S):
        enqueue_on_commit(TaskName.TICK, resource_group_id=resource_group_id)


def begin_tick(resource_group_id: int) -> None:
    """Before its snapshot is read: a session that is enqueued from now on asks for a tick of its own."""
    cache.delete(_asked_key(resource_group_id))


def request_placement(resource_group_id: int, session_id: UUID) -> None:
    """Have this session decided soon, by a worker that hears of it."""
    try:
        demand_redis()
        with client().pipeline(transaction=False) as pipeline:
            pipeline.rpush(newcomers_key(), f"{resource_group_id} {session_id}")
            pipeline.expire(newcomers_key(), KEPT_FOR_S)
            waiting, _ = pipeline.execute()
        if waiting > MOST_KEPT:
            client().ltrim(newcomers_key(), -MOST_KEPT, -1)
    except (redis.RedisError, Outage) as error:
        log.warning("tick.newcomer_lost", session_id=str(session_id), error=str(error))  # the timer finds it


def hear(wait_s: float) -> dict[int, list[UUID]]:
    """Newcomers, by their group, of whom nobody heard yet; waits for the first of them, with 0 for nobody. They are lost with whoever heard
    of them. Raises redis.RedisError."""
    with client().pipeline(transaction=False) as pipeline:
        if wait_s:  # Redis takes 0 for ever
            pipeline.blpop([newcomers_key()], timeout=wait_s)
        pipeline.lpop(newcomers_key(), MOST_KEPT)  # answered when the first is there
        *first, others = pipeline.execute()
    told = [*(text for _key, text in filter(None, first)), *(others or ())]
    heard: dict[int, list[UUID]] = defaultdict(list)
    for text in told:
        try:
            group_id, session_id = text.decode().split()
            number, session = int(group_id), UUID(session_id)
        except ValueError:  # of another version of Berth, or typed by hand
            log.warning("tick.newcomer_unreadable", told=text[:100])
        else:
            heard[number].append(session)
    return heard


def newcomers_key() -> str:
    return f"berth:{settings.BERTH_INSTALLATION}:newcomers"


def _asked_key(resource_group_id: int) -> str:
    return f"tick-asked:{resource_group_id}"
