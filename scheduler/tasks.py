"""The tick as background work. News ask for one of their group, a timer for all; either alone is right."""

from threading import Lock

from celery import shared_task
from django.core.cache import cache

from common.dispatch import TaskName, enqueue_on_commit
from common.pauses import during
from scheduler.commit import GroupBusy, StalePlan
from scheduler.snapshot import groups_with_pending_sessions
from scheduler.tick import run_tick

_one_at_a_time = Lock()  # in this process: two ticks of a group would only make each other's plan stale
ASKED_FOR_S = 5  # if a task is lost, the next timer may ask again


def request_tick(resource_group_id: int) -> None:
    """Have a tick of this group run soon. Requests that come before it begins are one."""
    if cache.add(_asked_key(resource_group_id), 1, timeout=ASKED_FOR_S):
        enqueue_on_commit(TaskName.TICK, resource_group_id=resource_group_id)


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
    with _one_at_a_time:
        # Before the snapshot is read: a session enqueued from now on asks for a tick of its own.
        cache.delete(_asked_key(resource_group_id))
        with during("tick"):
            run_tick(resource_group_id)


def _asked_key(resource_group_id: int) -> str:
    return f"tick-asked:{resource_group_id}"
