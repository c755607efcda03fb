"""Request ticks, debounced per resource group.

The state is in Redis, shared by all processes. Nothing relies on it: if it is lost, one tick too
many runs, or the timer's next request replaces the lost one. Its keys contain `-asked`:
`common.messaging.cache` deletes those when the clock of the machine is set back.
"""

from django.core.cache import cache

from common import clock
from common.messaging.dispatch import TaskName, enqueue_on_commit

REQUESTED_FOR_S = 5  # a request whose task was lost suppresses others no longer than this
MAX_PAUSE_S = 1.0
BUSY_RETRY_S = 0.05


def request_tick(resource_group_id: int) -> None:
    """Request a tick of this group. Requests that come before it begins are merged into one."""
    if cache.add(_request_key(resource_group_id), 1, timeout=REQUESTED_FOR_S):
        enqueue_on_commit(TaskName.TICK, resource_group_id=resource_group_id)


def postpone_tick(resource_group_id: int, delay_s: float) -> None:
    """Send the task of a request again, to run after `delay_s`. Requests until then are merged into
    it.
    """
    cache.set(_request_key(resource_group_id), 1, timeout=REQUESTED_FOR_S)
    enqueue_on_commit(TaskName.TICK, countdown_s=delay_s, resource_group_id=resource_group_id)


def begin_tick(resource_group_id: int) -> None:
    """Let later requests send a task of their own, as this tick may not see their changes.

    Call it before the snapshot is read.
    """
    cache.delete(_request_key(resource_group_id))


def end_tick(resource_group_id: int, took_s: float) -> None:
    """Begin a pause as long as the tick took, MAX_PAUSE_S at most, before the next tick of the
    group.

    Ticks of up to MAX_PAUSE_S then use workers and database at most half of the time.
    """
    pause_s = min(took_s, MAX_PAUSE_S)
    until = clock.now().timestamp() + pause_s
    cache.set(_pause_key(resource_group_id), until, timeout=REQUESTED_FOR_S)


def pause_left_s(resource_group_id: int) -> float:
    """Seconds until the next tick of this group may begin; 0.0 if it may begin now."""
    until: float = cache.get(_pause_key(resource_group_id), 0.0)
    # Bounded, as the clock of another machine may be ahead of this one's.
    return min(max(until - clock.now().timestamp(), 0.0), MAX_PAUSE_S)


def _request_key(resource_group_id: int) -> str:
    return f"tick-asked:{resource_group_id}"


def _pause_key(resource_group_id: int) -> str:
    return f"tick-asked-pause:{resource_group_id}"
