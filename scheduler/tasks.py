"""Celery tasks that run ticks of resource groups and delete old tick records."""

from time import monotonic

import structlog
from celery import shared_task

from common.db.advisory_locks import try_exclusive
from common.messaging.dispatch import TaskName
from common.resilience.fault_points import during
from scheduler.commit.device_tables import DevicesTaken
from scheduler.commit.plan_commit import GroupBusy, StalePlan
from scheduler.history.recorder import delete_old_ticks
from scheduler.snapshot.reader import groups_with_pending_sessions
from scheduler.tick import run_tick
from scheduler.triggers import (
    BUSY_RETRY_S,
    begin_tick,
    end_tick,
    pause_left_s,
    postpone_tick,
    request_tick,
)

log = structlog.get_logger(__name__)


@shared_task(
    name=TaskName.TICK.value,
    soft_time_limit=60,
    time_limit=90,
)
def tick(resource_group_id: int | None = None) -> None:
    """Run a tick of one group; without an id, request a tick of each group with pending sessions.

    One worker at a time runs ticks of a group, as two would only make each other's plan stale. A
    task that finds the group locked, or comes in the pause after a tick, is sent again with a
    delay.
    """
    if resource_group_id is None:
        for group_id in groups_with_pending_sessions():
            request_tick(group_id)
        return
    with try_exclusive(f"ticks of group {resource_group_id}") as is_mine:
        delay_s = pause_left_s(resource_group_id) if is_mine else BUSY_RETRY_S
        if delay_s:
            postpone_tick(resource_group_id, delay_s)
        else:
            _tick_now(resource_group_id)


def _tick_now(resource_group_id: int) -> None:
    begin_tick(resource_group_id)
    began_at = monotonic()
    is_stale = False
    try:
        with during("tick"):
            run_tick(resource_group_id)
    except (DevicesTaken, GroupBusy, StalePlan) as error:
        is_stale = True
        log.info("tick.stale", resource_group_id=resource_group_id, reason=str(error))
    finally:
        end_tick(resource_group_id, monotonic() - began_at)
    if is_stale:
        request_tick(resource_group_id)


@shared_task(name=TaskName.FORGET_TICKS.value, soft_time_limit=300, time_limit=330)
def forget_old_ticks() -> None:
    with try_exclusive("scheduler.forget_ticks") as is_mine:
        if is_mine:
            delete_old_ticks()
