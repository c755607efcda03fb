"""The tick as background work. News ask for one of their group, a timer for all; either alone is right."""

from celery import shared_task

from common.dispatch import TaskName
from common.locks import try_exclusive
from common.pauses import during
from scheduler.asking import begin_tick, request_tick
from scheduler.commit import GroupBusy, StalePlan
from scheduler.kept_ticks import forget_ticks
from scheduler.listening import turn_of
from scheduler.snapshot import groups_with_pending_sessions
from scheduler.tick import run_tick


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
    with turn_of(resource_group_id), during("tick"):
        begin_tick(resource_group_id)
        run_tick(resource_group_id)


@shared_task(name=TaskName.FORGET_TICKS.value, soft_time_limit=300, time_limit=330)
def forget_old_ticks() -> None:
    with try_exclusive("scheduler.forget_ticks") as is_mine:
        if is_mine:
            forget_ticks()
