"""Read the input of start-time estimates: current allocations, and run times of past sessions."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.postgres.aggregates import JSONBAgg
from django.db.models.functions import JSONObject

from scheduler.group_cache import GroupCache
from scheduler.snapshot.start_time_model import AllocatedKernel, Kind, RunLengths
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession, KernelAllocation

HISTORY = timedelta(days=90)
MAX_SESSIONS = 2_000
_recent = GroupCache[tuple[frozenset[int], RunLengths]](for_s=60.0)


class _Allocation(NamedTuple):
    """Row of the allocations of one kernel."""

    kernel_id: UUID
    agent_id: int
    owner_id: int
    image_id: int
    type: str
    status: str
    started_at: datetime | None
    deadline_at: datetime | None
    max_runtime_s: int | None
    slots: list[dict[str, Any]]


def read_allocations(group_id: int, now: datetime) -> list[AllocatedKernel]:
    """Return the allocation of each kernel of the group. One query."""
    session = "kernel__session__"
    names = ("owner_id", "image_id", "type", "status", "started_at", "deadline_at", "max_runtime_s")
    rows = (
        KernelAllocation.objects.filter(agent__resource_group_id=group_id)
        .values_list("kernel_id", "agent_id", *(f"{session}{name}" for name in names))
        .annotate(slots=JSONBAgg(JSONObject(name="slot_name", amount="amount")))
    )
    found = []
    for row in map(_Allocation._make, rows.order_by()):
        ran_s = max(0.0, (now - row.started_at).total_seconds()) if row.started_at else 0.0
        left_s = None if row.max_runtime_s is None else max(0.0, row.max_runtime_s - ran_s)
        is_ending = row.status == Status.TERMINATING.value
        # its deadline may have been extended
        if is_ending or (row.status == Status.RUNNING.value and row.max_runtime_s is not None):
            left_s = max(0.0, (row.deadline_at - now).total_seconds()) if row.deadline_at else 0.0
        slots = {each["name"]: each["amount"] for each in row.slots}
        found.append(
            AllocatedKernel(row.agent_id, slots, (row.owner_id, row.image_id, row.type), ran_s, left_s)
        )
    return found


def read_run_lengths(image_ids: Collection[int], now: datetime) -> RunLengths:
    """Return how long sessions of these images ran within HISTORY, the newest MAX_SESSIONS. One
    query.
    """
    ended = ComputeSession.objects.filter(
        image_id__in=image_ids, started_at__isnull=False, ended_at__gte=now - HISTORY
    )
    names = ("owner_id", "image_id", "type", "started_at", "ended_at")
    seen: dict[Kind, list[float]] = {}
    for owner, image, type_, began, end in ended.order_by("-ended_at").values_list(*names)[:MAX_SESSIONS]:
        seen.setdefault((owner, image, type_), []).append(max(0.0, (end - began).total_seconds()))
    return RunLengths(seen)


def cached_run_lengths(group_id: int, image_ids: Collection[int], now: datetime) -> RunLengths:
    """Return run times for the images that run in a group, cached for a minute while the images are
    the same, as every tick needs them. 1 query or none.
    """
    images = frozenset(image_ids)
    known = _recent.get(group_id)
    if known is None or not known[0] >= images:
        known = images, read_run_lengths(images, now)
        _recent.put(group_id, known)
    return known[1]


def read_kinds(ids: Iterable[UUID]) -> dict[UUID, Kind]:
    """Return owner, image and type by session id. One query."""
    rows = ComputeSession.objects.filter(pk__in=list(ids)).order_by()
    return {
        pk: (owner, image, type_)
        for pk, owner, image, type_ in rows.values_list("pk", "owner_id", "image_id", "type")
    }
