"""Read the running sessions of a resource group: known and expected ends, preemptible sessions,
preemptions in progress.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.contrib.postgres.aggregates import JSONBAgg
from django.db.models import Case, F, Q, QuerySet, When
from django.db.models.functions import JSONObject

from agents.models import ResourceGroup
from common import clock
from common.values.resources import MILLI, ResourceSlots
from scheduler.engine import DeviceShare, PreemptibleAllocation, PreemptionClaim, RunningAllocation
from scheduler.snapshot import run_lengths
from scheduler.snapshot.start_time_model import expected_overtime_s
from sessions_app.core.states import Status
from sessions_app.lifecycle.expected_end import (
    END_COLUMNS,
    HAS_EXPECTED_END,
    HAS_MAX_RUNTIME,
    expected_end,
    latest_removal,
)
from sessions_app.models import KernelAllocation, Preemption, PreemptionOutcome

_HELD = JSONBAgg(JSONObject(name="slot_name", amount="amount"))
# As above, with the device where only a part of one is allocated.
_PART = Case(When(amount__lt=MILLI, devices__len=1, then=F("devices__0")))
_HELD_OF_DEVICES = JSONBAgg(JSONObject(name="slot_name", amount="amount", device=_PART))


@dataclass(frozen=True, slots=True)
class PendingPreemptions:
    """Preemptions in progress. `ends`: end of the notice by victim. `promises`: preemption claim by
    pending session. Victims that should be gone for long are in neither.
    """

    ends: Mapping[UUID, datetime]
    claims: Mapping[UUID, PreemptionClaim]


def read_preemptions(group: ResourceGroup) -> PendingPreemptions:
    """Read the preemptions in progress of the group. 1 query; none if the group has no preemption."""
    ends: dict[UUID, datetime] = {}
    claims: dict[UUID, PreemptionClaim] = {}
    if group.preemptible_priority is None:
        return PendingPreemptions(ends, claims)
    has_notice = Q(outcome=PreemptionOutcome.OPEN, session__status=Status.RUNNING.value)
    ended = (PreemptionOutcome.OPEN, PreemptionOutcome.ENDED)
    of_this_attempt = Q(decided_at__gte=F("session__started_at"))  # notices of earlier attempts are closed
    ending = of_this_attempt & Q(outcome__in=ended, session__status=Status.TERMINATING.value)
    rows = Preemption.objects.filter(
        has_notice | ending,
        by__resource_group=group,
        by__status=Status.PENDING.value,
        agent__resource_group=group,  # the agent may have been moved
    )
    columns = ("session_id", "session__status", "session__status_changed_at", "ends_at", "by_id", "agent_id")
    now = clock.now()
    for session_id, status, changed_at, ends_at, by_id, agent_id in rows.order_by("pk").values_list(*columns):
        until = ends_at if status == Status.RUNNING else latest_removal(changed_at)
        if now >= (latest_removal(ends_at) if status == Status.RUNNING else until):
            continue  # undelivered notice, or it does not end: the preempting session may choose others
        if status == Status.RUNNING:
            ends[session_id] = ends_at
        known = claims.get(by_id)
        claims[by_id] = PreemptionClaim(agent_id, max(until, known.until) if known else until)
    return PendingPreemptions(ends, claims)


def read_running(
    group: ResourceGroup, victim_ends: Mapping[UUID, datetime], *, has_devices: bool = False
) -> dict[int, list[RunningAllocation]]:
    """Return the allocations with a known end by agent, with their devices if `has_devices`. 1
    query.
    """
    known = HAS_EXPECTED_END
    if victim_ends:
        known |= Q(kernel__session__in=list(victim_ends))
    allocations = KernelAllocation.objects.filter(known, agent__resource_group=group)
    running: dict[int, list[RunningAllocation]] = {}
    for row in _by_kernel(allocations, "kernel__session_id", *END_COLUMNS, has_devices=has_devices):
        session_id = row.kernel__session_id
        ends_at = victim_ends.get(session_id) or _known_end(row)
        assert ends_at is not None, "the filter leaves out whose end nobody knows"
        held = RunningAllocation(
            _slots(row.slots), ends_at, _shares(row.slots), is_being_preempted=session_id in victim_ends
        )
        running.setdefault(row.agent_id, []).append(held)
    return running


def read_expected_ends(
    group: ResourceGroup, victim_ends: Collection[UUID], now: datetime, *, has_devices: bool = False
) -> dict[int, list[RunningAllocation]]:
    """Return the allocations without a known end, or whose end is overdue, by agent, each with its
    expected end, earliest first. 1 query, and one more each minute.
    """
    session = "kernel__session__"
    ends_itself = HAS_MAX_RUNTIME & Q(**{f"{session}status": Status.RUNNING.value})
    is_ending = Q(**{f"{session}status": Status.TERMINATING.value})
    is_late = (ends_itself & Q(**{f"{session}deadline_at__lte": now})) | (
        is_ending & Q(**{f"{session}status_changed_at__lte": now - (latest_removal(now) - now)})
    )
    allocations = (
        KernelAllocation.objects.filter(agent__resource_group=group)
        .filter(is_late | (~HAS_MAX_RUNTIME & ~is_ending))
        .exclude(kernel__session__in=list(victim_ends))
    )
    kind_columns = [f"{session}{name}" for name in ("started_at", "owner_id", "image_id", "type")]
    rows = list(_by_kernel(allocations, *kind_columns, *END_COLUMNS, has_devices=has_devices))
    lengths = run_lengths.cached_run_lengths(group.pk, {row.kernel__session__image_id for row in rows}, now)
    expected: dict[int, list[RunningAllocation]] = {}
    for row in rows:
        due_at = _known_end(row)
        if due_at is None:
            kind = row.kernel__session__owner_id, row.kernel__session__image_id, row.kernel__session__type
            ran_s = max(0.0, (now - (row.kernel__session__started_at or now)).total_seconds())
            left_s = lengths.expected_remaining_s(kind, ran_s)
        else:
            left_s = expected_overtime_s(max(0.0, (now - due_at).total_seconds()))
        held = RunningAllocation(_slots(row.slots), now + timedelta(seconds=left_s), _shares(row.slots))
        expected.setdefault(row.agent_id, []).append(held)
    return {agent_id: sorted(each, key=attrgetter("ends_at")) for agent_id, each in expected.items()}


def read_preemptible(
    group: ResourceGroup, below: int, *, has_devices: bool = False
) -> dict[int, list[PreemptibleAllocation]]:
    """Return by agent the sessions that may be preempted for one of priority `below`, except those
    being preempted already. 1 query; none if the group has no preemption.
    """
    if group.preemptible_priority is None:
        return {}
    preemptions = Preemption.objects.filter(outcome=PreemptionOutcome.OPEN)
    allocations = KernelAllocation.objects.filter(
        agent__resource_group=group,
        kernel__session__status=Status.RUNNING.value,
        kernel__session__resource_group=group,  # not those on agents that were moved here
        kernel__session__priority__lte=min(group.preemptible_priority, below - 1),
    ).exclude(kernel__session__in=preemptions.values("session"))
    columns = ("kernel__session_id", "kernel__session__priority", *END_COLUMNS)
    found: dict[int, dict[UUID, PreemptibleAllocation]] = {}
    # Running time counts from the status change, which is corrected when the clock is set;
    # `started_at` is not.
    for row in _by_kernel(allocations, *columns, has_devices=has_devices):
        session_id, slots, shares = row.kernel__session_id, _slots(row.slots), _shares(row.slots)
        on_agent = found.setdefault(row.agent_id, {})
        if known := on_agent.get(session_id):  # from another kernel of the session
            slots, shares = slots + known.slots, known.shares + shares
        runs_since, ends_at = row.kernel__session__status_changed_at, _known_end(row)
        on_agent[session_id] = PreemptibleAllocation(
            session_id, row.kernel__session__priority, runs_since, slots, shares, ends_at
        )
    return {agent_id: sorted(sessions.values()) for agent_id, sessions in found.items()}


def _by_kernel(allocations: QuerySet[KernelAllocation], *columns: str, has_devices: bool) -> Iterable[Any]:
    """Return a row for each kernel, with `agent_id`, these columns, and its allocations as `slots`."""
    grouped = allocations.values("kernel_id", "agent_id", *columns)
    rows = grouped.annotate(slots=_HELD_OF_DEVICES if has_devices else _HELD).order_by()
    named: Iterable[Any] = rows.values_list("agent_id", *columns, "slots", named=True)
    return named


def _known_end(row: Any) -> datetime | None:
    """Return the known end of an allocation, of which `row` has END_COLUMNS."""
    return expected_end(*[getattr(row, column) for column in END_COLUMNS])


def _slots(amounts: list[dict[str, Any]]) -> ResourceSlots:
    return ResourceSlots({each["name"]: each["amount"] for each in amounts})


def _shares(amounts: list[dict[str, Any]]) -> tuple[DeviceShare, ...]:
    return tuple(
        [DeviceShare(each["name"], each["device"], each["amount"]) for each in amounts if each.get("device")]
    )
