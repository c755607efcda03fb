"""Read and advance the scheduler's run state of a resource group (`SchedulerState`).

A plan is committed only if the epoch is still the one of its snapshot.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F

from agents.models import ResourceGroup
from scheduler.engine import Accumulation
from scheduler.models import SchedulerState


def run_state(group: ResourceGroup) -> SchedulerState:
    """Return the run state of a group; the defaults if it has no row yet. No query after
    `select_related("scheduler_state")`.
    """
    return getattr(group, "scheduler_state", None) or SchedulerState(group=group)


def advance(group_id: int, epoch: int, **left: Any) -> bool:
    """Increment the epoch after a plan and save its results, columns of SchedulerState. Return
    False, and write nothing, if the epoch differs. Locks the row until the transaction ends.
    """
    if epoch == 0 and ResourceGroup.objects.select_for_update(no_key=True).filter(pk=group_id).first():
        _create([group_id])  # the lock on the group serialises this with `discard_plans`
    states = SchedulerState.objects.filter(pk=group_id, epoch=epoch)
    return bool(states.update(**left, epoch=epoch + 1))


def discard_plans(group_ids: Collection[int]) -> None:
    """Invalidate all plans of these groups that are not committed yet. The caller has locked the
    groups. 2 queries.
    """
    _create(group_ids)
    SchedulerState.objects.filter(pk__in=group_ids).update(epoch=F("epoch") + 1)


def _create(group_ids: Collection[int]) -> None:
    """Create the rows that are missing."""
    rows = [SchedulerState(group_id=group_id) for group_id in sorted(group_ids)]
    SchedulerState.objects.bulk_create(rows, ignore_conflicts=True)


def accumulations_to_json(gathered: Iterable[Accumulation]) -> list[dict[str, Any]]:
    """Return the value of the column `SchedulerState.gathered`."""
    return [
        {
            "session": str(each.session_id),
            "agents": list(each.agent_ids),
            "since": each.since.isoformat(),
            "until": each.until.isoformat(),
        }
        for each in gathered
    ]


def accumulations_from_json(stored: Iterable[dict[str, Any]]) -> dict[UUID, Accumulation]:
    """Parse the column `SchedulerState.gathered`, as {session_id: Accumulation}."""
    found = [
        Accumulation(
            UUID(each["session"]),
            tuple(each["agents"]),
            datetime.fromisoformat(each["since"]),
            datetime.fromisoformat(each["until"]),
        )
        for each in stored
    ]
    return {each.session_id: each for each in found}
