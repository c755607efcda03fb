"""A worker that ticks hears of newcomers itself: a message of Celery was longer on its way than all that placing them takes (ADR 48).
And who ticks or places in a group at a time, in this process."""

from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock
from uuid import UUID

import redis
import structlog
from django.db import connection

from common.pauses import during
from scheduler import newcomers
from scheduler.asking import hear, request_tick

log = structlog.get_logger(__name__)
HEARS_FOR_S = 1.0
DEAF_FOR_S = 1.0
TRIES = 2  # what failed once may have been the connection, which is another one then


@dataclass(slots=True)
class _Turn:
    """Of one group."""

    lock: Lock = field(default_factory=Lock)  # two ticks would only make each other's plan stale
    arrived: deque[UUID] = field(default_factory=deque)  # while it was held


_turns: dict[int, _Turn] = {}


def listen(is_over: Event) -> None:
    """Place whoever comes to any group, until `is_over`. Whatever goes wrong, the timer makes up for it."""
    while not is_over.is_set():
        try:
            heard = hear(HEARS_FOR_S)
        except redis.RedisError as error:
            log.warning("listening.deaf", error=str(error))
            is_over.wait(DEAF_FOR_S)
            continue
        for group_id, session_ids in heard.items():
            _place_at_last(group_id, session_ids)
    connection.close()


def place_heard(resource_group_id: int, session_ids: Collection[UUID]) -> None:
    """Place sessions that came lately on what the last tick left, or the one that is in progress leaves; where that is in doubt, ask
    for a tick of the group."""
    with during("tick"):
        if newcomers.place_newcomers(resource_group_id, session_ids):
            return
        turn = _turn_of(resource_group_id)
        if turn.lock.locked():
            turn.arrived.extend(session_ids)
            _place_arrived(resource_group_id, turn)
        else:
            request_tick(resource_group_id)


@contextmanager
def turn_of(resource_group_id: int) -> Iterator[None]:
    """Nobody else in this process ticks this group; then whoever came meanwhile is placed."""
    turn = _turn_of(resource_group_id)
    try:
        with turn.lock:
            yield
    finally:
        _place_arrived(resource_group_id, turn)


def _place_arrived(group_id: int, turn: _Turn) -> None:
    """Whoever has the turn looks once more when it has given it back, so nobody is forgotten."""
    while turn.arrived and turn.lock.acquire(blocking=False):
        try:
            session_ids = [turn.arrived.popleft() for _ in range(len(turn.arrived))]
            is_done = newcomers.place_newcomers(group_id, session_ids)
        finally:
            turn.lock.release()
        if not is_done:
            request_tick(group_id)


def _place_at_last(group_id: int, session_ids: Collection[UUID]) -> None:
    for attempt in range(1, TRIES + 1):
        try:
            place_heard(group_id, session_ids)
        except Exception as error:
            log.warning("listening.failed", resource_group_id=group_id, attempt=attempt, exc_info=error)
            connection.close()
        else:
            return


def _turn_of(group_id: int) -> _Turn:
    return _turns.setdefault(group_id, _Turn())
