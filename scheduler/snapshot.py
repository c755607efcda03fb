"""Reads one resource group into the engine's picture of it."""

from collections.abc import Collection, Iterator
from itertools import groupby
from operator import itemgetter

from accounts.budget_selectors import budget_states
from accounts.limits import ScopeIds, scopes_of
from accounts.quota import Level, Limit, kind_of, slot_of
from agents.models import Agent, AgentSlot, ResourceGroup
from agents.states import AgentState
from common.slots import ResourceSlots
from scheduler.engine import AgentView, Allowance, KernelRequest, PendingSession, Policy, Snapshot, Strategy
from sessions_app.limits import owners_of
from sessions_app.models import ComputeSession, Kernel
from sessions_app.states import Status

ScopeKey = tuple[Level, int]


def read_snapshot(group_id: int, also: Collection[ScopeKey] = ()) -> Snapshot:
    """The group's agents and pending sessions, and what the scopes of these and those in `also` may hold. 6 queries, any
    number of rows, and 5 more where there are budgets; 4 where nothing waits.

    The epoch is read first: whatever another tick of the group commits during the reads makes the plan stale, and the
    commit finds that out. Raises ResourceGroup.DoesNotExist.
    """
    group = ResourceGroup.objects.only("name", "epoch", "strategy", "scheduler").get(pk=group_id)
    scopes: set[ScopeKey] = set(also)
    agents, pending = tuple(_agents(group_id)), tuple(_pending(group_id, scopes))
    return Snapshot(
        group_id=group.pk,
        group_name=group.name,
        epoch=group.epoch,
        agents=agents,
        pending=pending,
        strategy=Strategy(group.strategy),
        policy=Policy(group.scheduler),
        allowances=tuple(_allowances(scopes)) if scopes else (),
    )


def groups_with_pending_sessions() -> list[int]:
    """Ids of the resource groups in which at least one session waits. 1 query."""
    pending = ComputeSession.objects.filter(status=Status.PENDING.value).order_by("resource_group_id")
    return list(pending.values_list("resource_group_id", flat=True).distinct())


def _agents(group_id: int) -> Iterator[AgentView]:
    capacity: dict[int, dict[str, int]] = {}
    free: dict[int, dict[str, int]] = {}
    slots = AgentSlot.objects.filter(agent__resource_group_id=group_id)
    for agent_id, name, amount, occupied in slots.values_list(
        "agent_id", "slot_name", "capacity", "occupied"
    ):
        capacity.setdefault(agent_id, {})[name] = amount
        free.setdefault(agent_id, {})[name] = amount - occupied
    agents = Agent.objects.filter(resource_group_id=group_id).in_use()
    for agent_id, architecture, state in agents.values_list("pk", "architecture", "state"):
        yield AgentView(
            id=agent_id,
            architecture=architecture,
            capacity=ResourceSlots(capacity.get(agent_id)),
            free=ResourceSlots(free.get(agent_id)),
            is_schedulable=state == AgentState.CONNECTED,
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


def _pending(group_id: int, scopes: set[ScopeKey]) -> Iterator[PendingSession]:
    """Adds to `scopes` those of the sessions."""
    kernels = (
        Kernel.objects.filter(
            session__resource_group_id=group_id, session__status=Status.PENDING.value, session__stops_at=None
        )
        .order_by("session_id", "role", "index")
        .values(
            "pk",
            "session_id",
            "session__created_at",
            "session__priority",
            "session__requested_slots",
            "session__image__architecture",
            "session__domain_id",
            "session__project_id",
            "session__owner_id",
            "session__keypair_id",
        )
    )
    for session_id, rows in groupby(kernels.iterator(), key=itemgetter("session_id")):
        same_session = list(rows)  # each row repeats the columns of its session
        session = same_session[0]
        slots = ResourceSlots(session["session__requested_slots"])
        keys = ScopeIds(
            session["session__domain_id"],
            session["session__project_id"],
            session["session__owner_id"],
            session["session__keypair_id"],
        ).keys()
        scopes.update(keys)
        yield PendingSession(
            id=session_id,
            enqueued_at=session["session__created_at"],
            architecture=session["session__image__architecture"],
            kernels=tuple(KernelRequest(row["pk"], slots) for row in same_session),
            priority=session["session__priority"],
            scopes=tuple(scope_key(*key) for key in keys),
        )
