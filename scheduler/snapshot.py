"""Reads one resource group into the engine's picture of it."""

import json
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.contrib.postgres.aggregates import JSONBAgg
from django.db.models import BigIntegerField, Q, Sum, TextField
from django.db.models.functions import Cast, Coalesce, Extract, JSONObject

from accounts.budget_selectors import budget_states
from accounts.limits import ScopeIds, scopes_of
from accounts.quota import Level, Limit, kind_of, slot_of
from agents.models import Agent, ResourceGroup
from agents.states import AgentState
from common.slots import ResourceSlots
from scheduler.engine import (
    AgentView,
    Allowance,
    Needs,
    PendingSession,
    Policy,
    Rules,
    Running,
    Snapshot,
    Strategy,
    Tenant,
)
from sessions_app.limits import owners_of
from sessions_app.models import ComputeSession, Kernel, KernelAllocation
from sessions_app.queueing import Hold
from sessions_app.states import DEADLINES_S, Status

ScopeKey = tuple[Level, int]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SINCE = Coalesce("session__eligible_at", "session__created_at")  # it waits
OWNERS = 3  # domain, project and owner are the first of a session's scopes; a token has no share of its own


def read_snapshot(group_id: int, also: Collection[ScopeKey] = ()) -> Snapshot:
    """The group's agents and pending sessions, and what the scopes of these and those in `also` may hold. 6 queries, any
    number of rows, one more for DRF and 5 where there are budgets; 3 where nothing waits.

    The epoch is read first: whatever another tick of the group commits during the reads makes the plan stale, and the
    commit finds that out. Raises ResourceGroup.DoesNotExist.
    """
    group = ResourceGroup.objects.get(pk=group_id)
    scopes: set[ScopeKey] = set(also)
    pending = tuple(_pending(group_id, scopes))
    return Snapshot(
        group_id=group.pk,
        group_name=group.name,
        epoch=group.epoch,
        agents=tuple(_agents(group_id, _running(group_id) if scopes else {})),
        pending=pending,
        rules=rules_of(group),
        allowances=tuple(_allowances(scopes)) if scopes else (),
        tenants=_tenants(group_id) if scopes and group.scheduler == Policy.DRF else {},
    )


def read_newcomers(
    group_id: int, session_ids: Collection[UUID]
) -> tuple[list[PendingSession], tuple[Allowance, ...]]:
    """Those of these that wait in the group, and what their scopes may hold. 2 queries, and 4 at most where there are budgets."""
    scopes: set[ScopeKey] = set()
    newcomers = list(_pending(group_id, scopes, session_id__in=list(session_ids)))
    return newcomers, tuple(_allowances(scopes)) if scopes else ()


def groups_with_pending_sessions() -> list[int]:
    """Ids of the resource groups in which at least one session waits. 1 query."""
    waiting = ComputeSession.objects.filter(status=Status.PENDING.value, held_for=Hold.NOTHING.value)
    pending = waiting.order_by("resource_group_id")
    return list(pending.values_list("resource_group_id", flat=True).distinct())


def rules_of(group: ResourceGroup) -> Rules:
    return Rules(
        strategy=Strategy(group.strategy),
        policy=Policy(group.scheduler),
        ageing=timedelta(seconds=group.ageing_s) if group.ageing_s else None,
        patience=timedelta(seconds=group.patience_s),
        is_paused=not group.is_active,
    )


def _running(group_id: int) -> dict[int, list[Running]]:
    """By agent, what kernels hold that will have ended at a known time. 1 query."""
    session = "kernel__session__"
    lasts_s = Coalesce(f"{session}timeout_s", f"{session}lifetime_s")
    known = Q(**{f"{session}status": Status.TERMINATING.value}) | Q(lasts_s__isnull=False)
    kernels = (
        KernelAllocation.objects.filter(agent__resource_group_id=group_id)
        .annotate(lasts_s=lasts_s)
        .filter(known)
        .values_list(
            "kernel_id",
            "agent_id",
            f"{session}status",
            f"{session}deadline_at",
            f"{session}status_changed_at",
            "lasts_s",
        )
        .annotate(slots=JSONBAgg(JSONObject(name="slot_name", amount="amount")))
    )
    running: dict[int, list[Running]] = {}
    for _, agent_id, status, deadline_at, changed_at, lasts_s, amounts in kernels.order_by():
        slots = ResourceSlots({each["name"]: each["amount"] for each in amounts})
        ends_at = _ends_at(Status(status), deadline_at, changed_at, lasts_s)
        running.setdefault(agent_id, []).append(Running(slots, ends_at))
    return running


def _ends_at(status: Status, deadline_at: datetime, changed_at: datetime, lasts_s: int) -> datetime:
    """When a session that holds something will have ended. Too early is safe: it keeps more free."""
    if status is Status.RUNNING:
        return deadline_at
    if status is Status.TERMINATING:  # its deadline is put off while its agent does not answer
        return changed_at + timedelta(seconds=DEADLINES_S[status])
    return changed_at + timedelta(seconds=lasts_s)


def _tenants(group_id: int) -> dict[str, Tenant]:
    """What each owner holds in this group. 1 query."""
    amounts: dict[int, dict[str, int]] = {}
    held = KernelAllocation.objects.filter(agent__resource_group_id=group_id).order_by()
    by_owner = held.values_list("kernel__session__owner_id", "slot_name").annotate(Sum("amount"))
    for owner_id, name, amount in by_owner:
        amounts.setdefault(owner_id, {})[name] = amount
    return {
        scope_key(Level.USER, owner_id): Tenant(held=ResourceSlots(each))
        for owner_id, each in amounts.items()
    }


def _agents(group_id: int, running: Mapping[int, list[Running]]) -> Iterator[AgentView]:
    """1 query."""
    slots = ("slots__slot_name", "slots__capacity", "slots__occupied")
    agents = Agent.objects.filter(resource_group_id=group_id).in_use().order_by("pk")
    rows = agents.values_list("pk", "architecture", "state", *slots)
    slots_of = cache(lambda amounts: ResourceSlots(dict(amounts)))  # machines are mostly alike
    for (agent_id, architecture, state), same in groupby(rows, key=itemgetter(0, 1, 2)):
        # An agent of which nothing is known yet has one row, without a slot.
        amounts = [(name, capacity, occupied) for *_, name, capacity, occupied in same if name]
        yield AgentView(
            id=agent_id,
            architecture=architecture,
            capacity=slots_of(tuple([(name, capacity) for name, capacity, _ in amounts])),
            free=slots_of(tuple([(name, capacity - occupied) for name, capacity, occupied in amounts])),
            is_schedulable=state == AgentState.CONNECTED,
            running=tuple(running.get(agent_id, ())),
        )


def scope_key(level: Level, scope_id: int) -> str:
    """What the engine calls a scope."""
    return f"{level}:{scope_id}"


def _allowances(scopes: Collection[ScopeKey]) -> list[Allowance]:
    found = {}
    for scope in scopes_of(scopes):
        limit = {slot_of(name): value for name, value in scope.limits.items() if kind_of(name) is Limit.SLOTS}
        held = {slot_of(name): used for name, used in scope.used.items() if kind_of(name) is Limit.SLOTS}
        if limit:
            key = scope_key(scope.level, scope.id)
            found[key] = Allowance(key, scope.level.value, scope.name, limit, held)
    for budget in budget_states(owners_of(scopes)):
        if budget.refuses:
            key = scope_key(budget.level, budget.owner_id)
            found[key] = Allowance(key, budget.level.value, budget.owner, {}, {}, is_spent=True)
    return list(found.values())


def _pending(group_id: int, scopes: set[ScopeKey], **only: Any) -> Iterator[PendingSession]:
    """Adds to `scopes` those of the sessions. `only`: conditions on kernels."""
    kernels = (
        Kernel.objects.filter(
            session__resource_group_id=group_id,
            session__status=Status.PENDING.value,
            session__held_for=Hold.NOTHING.value,
            session__stops_at=None,
            **only,
        )
        .order_by("session_id", "role", "index")
        .annotate(asked=Cast("session__requested_slots", TextField()), since_us=_microseconds(_SINCE))
        .values_list(
            "session_id", "pk", "since_us", "session__priority",
            "asked", "session__image__architecture",
            "session__domain_id", "session__project_id", "session__owner_id", "session__keypair_id",
            Coalesce("session__timeout_s", "session__lifetime_s"),
        )
    )  # fmt: skip
    needs_of = cache(_needs)  # one object for equal needs: the engine finds out about each once
    owners: dict[tuple[int | None, ...], tuple[str, ...]] = {}
    for session_id, rows in groupby(kernels, key=itemgetter(0)):
        same_session = list(rows)  # each row repeats the columns of its session
        _, _, since_us, priority, asked, architecture, *ids, lasts_s = same_session[0]
        named = owners.get(tuple(ids))
        if named is None:
            keys = ScopeIds(*ids).keys()
            scopes.update(keys)
            named = owners[tuple(ids)] = tuple(scope_key(*key) for key in keys)
        yield PendingSession(
            id=session_id,
            enqueued_at=EPOCH + timedelta(microseconds=since_us),
            needs=needs_of(architecture, asked, len(same_session)),
            kernel_ids=tuple([row[1] for row in same_session]),
            priority=priority,
            scopes=named,
            tenants=named[:OWNERS],
            lasts=None if lasts_s is None else timedelta(seconds=lasts_s),
        )


def _microseconds(instant: Any) -> Cast:
    """Since 1970, UTC: an instant as text takes longer to read than all else of a row."""
    return Cast(Extract(instant, "epoch") * 1_000_000, BigIntegerField())


def _needs(architecture: str, asked: str, kernel_count: int) -> Needs:
    return Needs(architecture, (ResourceSlots(json.loads(asked)),) * kernel_count)
