"""A worker that ticks hears of newcomers itself: a message of Celery was longer on its way than all that placing them takes (ADR 48).
And whose turn it is in a group, in this process."""

from collections import deque
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Lock
from uuid import UUID

import structlog
from django.db import connection

from common.pauses import during
from scheduler.asking import hear, request_tick
from scheduler.commit import GroupBusy
from scheduler.newcomers import place_newcomers

log = structlog.get_logger(__name__)
HEARS_FOR_S = 1.0
DEAF_FOR_S = 1.0
HURRIES_S = 0.05  # who listens waits no longer for others: newcomers of other groups want to be heard


@dataclass(slots=True)
class _Turn:
    """Of one group."""

    lock: Lock = field(default_factory=Lock)  # two ticks would only make each other's plan stale
    arrived: deque[UUID] = field(default_factory=deque)  # while it was held


_turns: dict[int, _Turn] = {}
_patient = ThreadPoolExecutor(4, thread_name_prefix="newcomers")


def listen(is_over: Event) -> None:
    """Place whoever comes to any group, until `is_over`. What fails, or would have to wait, goes on in another thread."""
    while not is_over.is_set():
        try:
            for group_id, session_ids in hear(HEARS_FOR_S).items():
                _place_in_a_hurry(group_id, session_ids)
        except Exception as error:  # nobody would miss a thread that has ended
            log.warning("listening.failed", exc_info=error)
            is_over.wait(DEAF_FOR_S)
    connection.close()


def place_heard(resource_group_id: int, session_ids: Collection[UUID], wait_s: float | None = None) -> None:
    """Place sessions that came lately on what the last tick left, or, later, on what the one in progress leaves; where that is in doubt,
    ask for a tick of the group. Raises what `place_newcomers` raises."""
    with during("tick"):
        if place_newcomers(resource_group_id, session_ids, wait_s):
            return
    turn = _turn_of(resource_group_id)
    if not turn.lock.locked():
        request_tick(resource_group_id)
        return
    turn.arrived.extend(session_ids)
    if not turn.lock.locked():  # whoever had the turn may have looked before
        _place_arrived(resource_group_id, turn)


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
    session_ids = []
    with suppress(IndexError):  # others may do the same
        while True:
            session_ids.append(turn.arrived.popleft())
    if session_ids:
        _patient.submit(_place_patiently, group_id, session_ids)


def _place_in_a_hurry(group_id: int, session_ids: Collection[UUID]) -> None:
    try:
        place_heard(group_id, session_ids, HURRIES_S)
    except GroupBusy:
        _patient.submit(_place_patiently, group_id, session_ids)
    except Exception as error:
        log.warning("listening.left", resource_group_id=group_id, exc_info=error)
        connection.close()  # which may be what failed
        _patient.submit(_place_patiently, group_id, session_ids)


def _place_patiently(group_id: int, session_ids: Collection[UUID]) -> None:
    try:
        place_heard(group_id, session_ids)
    except GroupBusy:
        request_tick(group_id)
    except Exception as error:
        log.warning("listening.lost", resource_group_id=group_id, exc_info=error)  # the timer finds them
    finally:
        connection.close()


def _turn_of(group_id: int) -> _Turn:
    return _turns.setdefault(group_id, _Turn())
