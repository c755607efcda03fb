"""What runs on the agents of a group, as the engine sees it: what ends at a known time, what may be ended for others, and
what is being ended for whom."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.postgres.aggregates import JSONBAgg
from django.db.models import Case, F, Q, When
from django.db.models.functions import Coalesce, JSONObject

from agents.models import ResourceGroup
from common import clock
from common.slots import MILLI, ResourceSlots
from scheduler.engine import Preemptible, Promise, Running, Share
from sessions_app.models import KernelAllocation
from sessions_app.preemption_models import Preemption, PreemptionOutcome
from sessions_app.states import DEADLINES_S, Status

_HELD = JSONBAgg(JSONObject(name="slot_name", amount="amount"))
# And, where only a part of a device is held, of which.
_PART = Case(When(amount__lt=MILLI, devices__len=1, then=F("devices__0")))
_HELD_OF_DEVICES = JSONBAgg(JSONObject(name="slot_name", amount="amount", device=_PART))


@dataclass(frozen=True, slots=True)
class Leaving:
    """`ends`: by session that has its notice, when it ends. `promises`: by session that waits, what is done for it. Who ought to be gone
    for long is in neither."""

    ends: Mapping[UUID, datetime]
    promises: Mapping[UUID, Promise]


def leaving_of(group: ResourceGroup) -> Leaving:
    """1 query; none where nothing is ended for others."""
    ends: dict[UUID, datetime] = {}
    promises: dict[UUID, Promise] = {}
    if group.preemptible_priority is None:
        return Leaving(ends, promises)
    has_notice = Q(outcome=PreemptionOutcome.OPEN, session__status=Status.RUNNING.value)
    ended = (PreemptionOutcome.OPEN, PreemptionOutcome.ENDED)
    ending = Q(outcome__in=ended, session__status=Status.TERMINATING.value)
    rows = Preemption.objects.filter(
        has_notice | ending,
        by__resource_group=group,
        by__status=Status.PENDING.value,
        agent__resource_group=group,  # it may have been moved
        decided_at__gte=F("session__started_at"),  # of this attempt
    )
    columns = ("session_id", "session__status", "session__status_changed_at", "ends_at", "by_id", "agent_id")
    now = clock.now()
    for session_id, status, changed_at, ends_at, by_id, agent_id in rows.order_by("pk").values_list(*columns):
        until = ends_at if status == Status.RUNNING else _removed_at(changed_at)
        if now >= (_removed_at(ends_at) if status == Status.RUNNING else until):
            continue  # it cannot be told, or does not end: whom it is for may ask others
        if status == Status.RUNNING:
            ends[session_id] = ends_at
        known = promises.get(by_id)
        promises[by_id] = Promise(agent_id, max(until, known.until) if known else until)
    return Leaving(ends, promises)


def running_of(
    group: ResourceGroup, leaving: Mapping[UUID, datetime], *, has_devices: bool = False
) -> dict[int, list[Running]]:
    """By agent, what kernels hold that will have ended at a known time; of which devices, if the group has some. 1 query."""
    session = "kernel__session__"
    lasts_s = Coalesce(f"{session}timeout_s", f"{session}lifetime_s")
    known = Q(**{f"{session}status": Status.TERMINATING.value}) | Q(lasts_s__isnull=False)
    if leaving:
        known |= Q(kernel__session__in=list(leaving))
    kernels = (
        KernelAllocation.objects.filter(agent__resource_group=group)
        .annotate(lasts_s=lasts_s)
        .filter(known)
        .values_list(
            "kernel_id",
            "agent_id",
            "kernel__session_id",
            f"{session}status",
            f"{session}deadline_at",
            f"{session}status_changed_at",
            "lasts_s",
        )
        .annotate(slots=_HELD_OF_DEVICES if has_devices else _HELD)
    )
    running: dict[int, list[Running]] = {}
    for _, agent_id, session_id, *when, amounts in kernels.order_by():
        ends_at = leaving.get(session_id) or _ends_at(Status(when[0]), *when[1:])
        running.setdefault(agent_id, []).append(Running(_slots(amounts), ends_at, _shares(amounts)))
    return running


def preemptible_of(
    group: ResourceGroup, below: int, *, has_devices: bool = False
) -> dict[int, list[Preemptible]]:
    """By agent, what sessions hold that may be ended for one of priority `below`, and leave for nobody yet. 1 query; none where
    none may."""
    if group.preemptible_priority is None:
        return {}
    leaving = Preemption.objects.filter(outcome=PreemptionOutcome.OPEN)
    kernels = (
        KernelAllocation.objects.filter(
            agent__resource_group=group,
            kernel__session__status=Status.RUNNING.value,
            kernel__session__resource_group=group,  # not those whose machine was moved here
            kernel__session__priority__lte=min(group.preemptible_priority, below - 1),
        )
        .exclude(kernel__session__in=leaving.values("session"))
        .values_list(
            "kernel_id",
            "agent_id",
            "kernel__session_id",
            "kernel__session__priority",
            "kernel__session__started_at",
        )
        .annotate(slots=_HELD_OF_DEVICES if has_devices else _HELD)
    )
    found: dict[int, dict[UUID, Preemptible]] = {}
    for _, agent_id, session_id, priority, started_at, amounts in kernels.order_by():
        of_agent = found.setdefault(agent_id, {})
        known = of_agent.get(session_id)  # another kernel of it
        slots, shares = _slots(amounts), _shares(amounts)
        if known:
            slots, shares = slots + known.slots, known.shares + shares
        of_agent[session_id] = Preemptible(session_id, priority, started_at, slots, shares)
    return {agent_id: sorted(sessions.values()) for agent_id, sessions in found.items()}


def _slots(amounts: list[dict[str, Any]]) -> ResourceSlots:
    return ResourceSlots({each["name"]: each["amount"] for each in amounts})


def _shares(amounts: list[dict[str, Any]]) -> tuple[Share, ...]:
    return tuple(
        [Share(each["name"], each["device"], each["amount"]) for each in amounts if each.get("device")]
    )


def _ends_at(status: Status, deadline_at: datetime, changed_at: datetime, lasts_s: int) -> datetime:
    """When a session that holds something will have ended. Too early is safe: it keeps more free."""
    if status is Status.RUNNING:
        return deadline_at
    if status is Status.TERMINATING:  # its deadline is put off while its agent does not answer
        return _removed_at(changed_at)
    return changed_at + timedelta(seconds=lasts_s)


def _removed_at(changed_at: datetime) -> datetime:
    return changed_at + timedelta(seconds=DEADLINES_S[Status.TERMINATING])
