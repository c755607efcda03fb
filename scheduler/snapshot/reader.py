"""Read one resource group from the database into the engine's `Snapshot`."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from accounts.budgets.selectors import budget_states
from accounts.core.budget_arithmetic import BudgetState
from accounts.core.limits import Level, Limit, Scope, limit_kind, limit_slot
from accounts.limits import ScopeIds, read_scopes
from agents.core.isolation import Isolation
from agents.core.sandboxes import Sandbox
from agents.core.states import AgentState
from agents.models import Agent, ResourceGroup
from agents.reservations.selectors import with_reserved_agents
from agents.sharing.selectors import IsolationRanks, isolation_ranks
from common import clock
from common.db.rows import read_rows
from common.values.resources import ResourceSlots
from images.models import ContainerImage
from scheduler.engine import (
    AgentView,
    Closure,
    Gang,
    PendingSession,
    Policy,
    PreemptibleAllocation,
    PreemptionClaim,
    PreemptionRule,
    Quota,
    Requirements,
    Rules,
    RunningAllocation,
    SlotDevices,
    Snapshot,
    Strategy,
    Tenant,
)
from scheduler.engine.accelerators import fractional_slot
from scheduler.engine.values import NO_RESERVATIONS
from scheduler.fairness.usage import WEIGHTED, read_tenants
from scheduler.run_state import accumulations_from_json, run_state
from scheduler.snapshot.accelerators import HAS_DEVICES, GroupDevices, closed_agents, read_devices
from scheduler.snapshot.group_limits import GroupLimits, texts_in_force
from scheduler.snapshot.placement_groups import KEY, placement_group, read_group_hosts
from scheduler.snapshot.reservations import GroupWindows, windows_from
from scheduler.snapshot.running_sessions import (
    read_expected_ends,
    read_preemptible,
    read_preemptions,
    read_running,
)
from sessions_app.core.queue_options import LOWEST_PRIORITY, Hold
from sessions_app.limits.policy_limits import budget_owners
from sessions_app.models import ComputeSession, Kernel

ScopeKey = tuple[Level, int]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# One row per kernel. Raw SQL, as compiling the ORM query takes longer than running it for one
# session. Instants as microseconds since 1970: parsing them as text takes longer than the rest of a
# row.
_WAITING = f"""
    SELECT session.id AS session_id, kernel.id AS kernel_id,
           (extract(epoch FROM coalesce(session.eligible_at, session.created_at)) * 1000000)::bigint AS since_us,
           session.priority, coalesce(kernel.requested_slots, session.requested_slots)::text AS slots, image.architecture,
           session.type AS session_type, session.domain_id, session.project_id, session.owner_id,
           session.keypair_id, session.max_runtime_s, session.designated_agent_id AS agent_id,
           session.may_run_elsewhere, session.device_model, session.device_mem_bytes,
           session.device_api_version, session.linked_devices, session.isolation, session.storage_hosts,
           session.gang, session.placement_rule,
           {KEY} AS group_key
    FROM {Kernel._meta.db_table} AS kernel
    JOIN {ComputeSession._meta.db_table} AS session ON session.id = kernel.session_id
    JOIN {ContainerImage._meta.db_table} AS image ON image.id = session.image_id
    WHERE session.resource_group_id = %(group)s AND session.status = 'PENDING' AND session.started_at IS NULL
      AND session.ended_at IS NULL AND session.held_for = '' AND session.stops_at IS NULL
    ORDER BY session.id, kernel.rank
"""
TENANT_SCOPES = 3  # a session's first scopes: domain, project, owner; a keypair has no share of its own


class _WaitingKernel(NamedTuple):
    """Row of `_WAITING`: a kernel, with the columns of its session."""

    session_id: UUID
    kernel_id: UUID
    since_us: int
    priority: int
    slots: str  # as JSON
    architecture: str
    session_type: str
    domain_id: int
    project_id: int
    owner_id: int
    keypair_id: int | None
    max_runtime_s: int | None
    agent_id: int | None
    may_run_elsewhere: bool
    device_model: str
    device_mem_bytes: int
    device_api_version: int
    linked_devices: bool
    isolation: str
    storage_hosts: list[str]
    gang: str
    placement_rule: str
    group_key: str | None


class _AgentSlotRow(NamedTuple):
    """Row of `_agents`: a slot, with the columns of its agent."""

    agent_id: int
    architecture: str
    state: str
    device_model: str
    device_mem_bytes: int
    device_api_version: int
    storage_hosts: list[str]
    sandboxes: list[str]
    maintenance_ends_at: datetime | None
    maintenance_reason: str
    slot_name: str  # None if the agent has no slot yet
    capacity: int
    surplus: int
    occupied: int


@dataclass(frozen=True, slots=True)
class PendingRead:
    """Pending sessions of a resource group, the scopes whose limits apply to them, and the keys of
    their placement groups.
    """

    sessions: tuple[PendingSession, ...]
    scope_keys: frozenset[ScopeKey]
    group_keys: frozenset[str]


def read_snapshot(group_id: int, also: Collection[ScopeKey] = (), highest: int = LOWEST_PRIORITY) -> Snapshot:
    """Read the group's agents and pending sessions, the allowances of their scopes and of those in
    `also`, and the sessions that may be preempted for these, or for a session with a priority up to
    `highest` that is to be added.

    6 queries for any number of rows; 3 if no session is pending. More: two if devices are known one
    by one, one if placement groups are named, 2 for DRF and fair share, 5 with budgets, one if
    limits of the group are in force, 2 with preemption, one or two if a session has waited longer
    than the group's patience.

    The epoch is read first, so a tick of the group that commits during the reads makes the plan
    stale, which the commit detects. Raises ResourceGroup.DoesNotExist.
    """
    now = clock.now()
    groups = with_reserved_agents(ResourceGroup.objects.all(), now)
    group = groups.annotate(has_devices=HAS_DEVICES).select_related("scheduler_state").get(pk=group_id)
    state = run_state(group)
    has_devices: bool = group.has_devices  # type: ignore[attr-defined]
    reserved = windows_from(group.reserved, now)  # type: ignore[attr-defined]
    preemptions = read_preemptions(group)
    ranks = {session_id: rank for rank, session_id in enumerate(state.head_ids, 1)}
    limits, rules = GroupLimits(group, now), rules_for(group, now)
    read = _read_pending(group_id, reserved.by_scope, preemptions.claims, ranks, limits)
    pending, scopes = read.sessions, read.scope_keys.union(also)
    gathered = accumulations_from_json(state.gathered)
    if gathered:
        pending = tuple(
            [
                replace(each, accumulation=gathered[each.id]) if each.id in gathered else each
                for each in pending
            ]
        )
    running = read_running(group, preemptions.ends, has_devices=has_devices) if scopes else {}
    has_waited = any(each.enqueued_at <= now - rules.patience for each in pending)
    expected = read_expected_ends(group, preemptions.ends, now, has_devices=has_devices) if has_waited else {}
    highest = max([highest, *(session.priority for session in pending)])
    preemptible = (
        read_preemptible(group, highest, has_devices=has_devices) if highest > LOWEST_PRIORITY else {}
    )
    devices, sharers = read_devices(group) if has_devices else GroupDevices({}, {})
    isolation = isolation_ranks(group) if has_devices else None
    agents = tuple(_agents(group, running, expected, preemptible, reserved, devices, isolation))
    if sharers:
        pending = tuple([_kept_apart(session, agents, sharers) for session in pending])
    return Snapshot(
        group_id=group.pk,
        group_name=group.name,
        epoch=state.epoch,
        agents=agents,
        pending=pending,
        last_agent_id=state.last_agent_id,
        rules=rules,
        quotas=(*_quotas(scopes), *limits.quotas()) if scopes else (),
        tenants=_tenants(group, rules.policy, agents) if scopes and rules.policy in WEIGHTED else {},
        reservations=reserved.by_scope,
        group_hosts=read_group_hosts(group_id, read.group_keys),
        sharers=sharers,
    )


def _kept_apart(
    session: PendingSession, agents: Sequence[AgentView], sharers: Mapping[int, Mapping[int, int]]
) -> PendingSession:
    """Return the session without the agents whose devices with room other projects share."""
    requirements = session.requirements
    closed = closed_agents(agents, sharers, project_of(session.scopes), requirements.kernels[0])
    return replace(session, requirements=replace(requirements, closed_agents=closed)) if closed else session


def project_of(scopes: Iterable[str]) -> int:
    """Return the id of the project among the keys of a session's scopes."""
    begin = scope_key(Level.PROJECT, 0)[:-1]
    return int(next(key for key in scopes if key.startswith(begin)).removeprefix(begin))


def groups_with_pending_sessions() -> list[int]:
    """Ids of the resource groups in which at least one session waits. 1 query."""
    waiting = ComputeSession.objects.waiting().filter(held_for=Hold.NOTHING.value)
    pending = waiting.order_by("resource_group_id")
    return list(pending.values_list("resource_group_id", flat=True).distinct())


def rules_for(group: ResourceGroup, now: datetime) -> Rules:
    """Return the scheduling rules of a group, with the limits in force at `now`, the snapshot's
    instant.
    """
    return Rules(
        strategy=Strategy(group.strategy),
        policy=Policy(group.scheduler),
        ageing=timedelta(seconds=group.ageing_s) if group.ageing_s else None,
        patience=timedelta(seconds=group.patience_s),
        is_paused=not group.is_active,
        preemption=_preemption_of(group),
        limits=texts_in_force(group, now),
        sandbox=group.sandbox,
    )


def _preemption_of(group: ResourceGroup) -> PreemptionRule | None:
    if group.preemptible_priority is None:
        return None
    return PreemptionRule(
        max_priority=group.preemptible_priority,
        min_runtime=timedelta(seconds=group.preemption_after_s),
        grace=timedelta(seconds=group.preemption_grace_s),
    )


def _tenants(group: ResourceGroup, policy: Policy, agents: Collection[AgentView]) -> dict[str, Tenant]:
    """Return the fair-share data of each tenant, by scope key. 2 queries."""
    tenants = read_tenants(group, policy, agents, clock.now())
    return {scope_key(*holder): tenant for holder, tenant in tenants.items()}


def _agents(
    group: ResourceGroup,
    running: Mapping[int, list[RunningAllocation]],
    expected: Mapping[int, list[RunningAllocation]],
    preemptible: Mapping[int, list[PreemptibleAllocation]],
    reserved: GroupWindows,
    devices: Mapping[int, tuple[SlotDevices, ...]],
    isolation: IsolationRanks | None,
) -> Iterator[AgentView]:
    """Read the agents of the group. 1 query."""
    slots = ("slots__slot_name", "slots__capacity", "slots__surplus", "slots__occupied")
    agents = Agent.objects.filter(resource_group_id=group.pk).in_use().order_by("pk")
    hardware = ("device_model", "device_mem_bytes", "device_api_version", "storage_hosts")
    closing = ("sandboxes", "maintenance_ends_at", "maintenance_reason")
    rows = agents.values_list("pk", "architecture", "state", *hardware, *closing, *slots)
    slots_of = cache(lambda amounts: ResourceSlots(dict(amounts)))  # cached, as agents are mostly alike
    hosts_of = cache(frozenset[str])
    for agent_id, same_agent in groupby(map(_AgentSlotRow._make, rows), key=attrgetter("agent_id")):
        slot_rows = list(same_agent)
        row = slot_rows[0]  # each row repeats the columns of its agent
        # An agent that has reported nothing yet has one row, without a slot.
        amounts = [each for each in slot_rows if each.slot_name]
        names = {each.slot_name for each in amounts}
        capacity = slots_of(tuple([(each.slot_name, each.capacity) for each in amounts]))
        is_overcommitted = any(each.surplus for each in amounts)
        promised = [(each.slot_name, each.capacity + each.surplus) for each in amounts]
        free = [(each.slot_name, each.capacity + each.surplus - each.occupied) for each in amounts]
        closure = _closure(group, row)
        yield AgentView(
            id=agent_id,
            architecture=row.architecture,
            capacity=slots_of(tuple(promised)) if is_overcommitted else capacity,
            free=slots_of(tuple(free)),
            real_capacity=capacity if is_overcommitted else None,
            device_model=row.device_model,
            device_mem_bytes=row.device_mem_bytes,
            device_api_version=row.device_api_version,
            storage_hosts=hosts_of(tuple(row.storage_hosts)),
            isolation=(
                isolation.least(row.device_model, row.device_api_version)
                if isolation and agent_id in devices
                else 0
            ),
            is_schedulable=row.state == AgentState.CONNECTED and closure is None,
            closure=closure,
            running=tuple(running.get(agent_id, ())),
            expected_ends=tuple(expected.get(agent_id, ())),
            preemptible=tuple(preemptible.get(agent_id, ())),
            window=reserved.open_now.get(agent_id),
            next_window=reserved.upcoming.get(agent_id),
            devices=_offered(devices[agent_id], names) if agent_id in devices else (),
        )


def _closure(group: ResourceGroup, row: _AgentSlotRow) -> Closure | None:
    if group.sandbox not in (Sandbox.RUNC, *row.sandboxes):
        return Closure(sandbox=group.sandbox)
    if row.state == AgentState.MAINTENANCE:
        return Closure(until=row.maintenance_ends_at, because=row.maintenance_reason)
    return None


def _offered(devices: tuple[SlotDevices, ...], names: Collection[str]) -> tuple[SlotDevices, ...]:
    """Return the devices of the slots that the agent offers."""
    is_all = all(each.slot_name in names for each in devices)
    return devices if is_all else tuple([each for each in devices if each.slot_name in names])


def scope_key(level: Level, scope_id: int) -> str:
    """Return the engine's key of a scope, e.g. "project:7"."""
    return f"{level}:{scope_id}"


def _quotas(scopes: Collection[ScopeKey]) -> list[Quota]:
    return quotas_for(read_scopes(scopes), budget_states(budget_owners(scopes)))


def quotas_for(scopes: Iterable[Scope], budgets: Iterable[BudgetState]) -> list[Quota]:
    """Return allowances for the limits of these scopes, and one for each exhausted budget."""
    found = {}
    for scope in scopes:
        limit = {
            limit_slot(name): value for name, value in scope.limits.items() if limit_kind(name) is Limit.SLOTS
        }
        held = {
            limit_slot(name): used for name, used in scope.used.items() if limit_kind(name) is Limit.SLOTS
        }
        if limit:
            key = scope_key(scope.level, scope.id)
            found[key] = Quota(key, scope.level.value, scope.name, limit, held)
    for budget in budgets:
        if budget.refuses:
            key = scope_key(budget.level, budget.owner_id)
            found[key] = Quota(key, budget.level.value, budget.owner, {}, {}, is_exhausted=True)
    return list(found.values())


class _SessionScopes:
    """Scopes of pending sessions, with those of the limits of their resource group."""

    def __init__(self, limits: GroupLimits) -> None:
        self.keys: set[ScopeKey] = set()
        self._limits = limits
        self._known: dict[tuple[object, ...], tuple[tuple[str, ...], tuple[str, ...]]] = {}
        # One object for all keypairs of an owner: the engine compares tenants by identity first.
        self._tenants: dict[tuple[str, ...], tuple[str, ...]] = {}

    def keys_for(self, kernels: Sequence[_WaitingKernel]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the engine's keys of all scopes of a session, and of those that have a share."""
        row = kernels[0]
        ids = row.domain_id, row.project_id, row.owner_id, row.keypair_id
        asked = tuple([kernel.slots for kernel in kernels]) if self._limits else ()
        whose = (*ids, row.session_type, asked) if self._limits else ids
        known = self._known.get(whose)
        if known is None:
            keys = ScopeIds(*ids).keys()
            self.keys.update(keys)
            scopes = tuple(scope_key(*key) for key in keys)
            tenants = self._tenants.setdefault(scopes[:TENANT_SCOPES], scopes[:TENANT_SCOPES])
            if self._limits:
                slots = {name: amount for text in set(asked) for name, amount in json.loads(text).items()}
                scopes += self._limits.keys_for(row.session_type, row.owner_id, slots)
            known = self._known[whose] = scopes, tenants
        return known


def _read_pending(
    group_id: int,
    reservations: Mapping[str, frozenset[int]],
    claims: Mapping[UUID, PreemptionClaim],
    head_ranks: Mapping[UUID, int],
    limits: GroupLimits,
) -> PendingRead:
    """Read the pending sessions of a resource group, whose own limits are `limits`. 1 query."""
    requirements_for = cache(_requirements)  # one object for equal requirements, which compares fastest
    scopes_of_all = _SessionScopes(limits)
    group_keys: set[str] = set()
    sessions = []
    may_use = NO_RESERVATIONS
    rows = read_rows(_WaitingKernel, _WAITING, {"group": group_id})
    for session_id, same_session in groupby(rows, key=attrgetter("session_id")):
        kernels = list(same_session)
        row = kernels[0]  # each row repeats the columns of its session
        scopes, tenants = scopes_of_all.keys_for(kernels)
        if row.group_key is not None:
            group_keys.add(row.group_key)
        if reservations:
            may_use = NO_RESERVATIONS.union(*(reservations.get(key, ()) for key in scopes))
        requirements = requirements_for(
            row.architecture,
            tuple([kernel.slots for kernel in kernels]),
            may_use,
            row.agent_id,
            row.may_run_elsewhere,
            row.device_model,
            row.gang,
            row.placement_rule,
            row.group_key,
            row.device_mem_bytes,
            row.device_api_version,
            row.linked_devices,
            row.isolation,
            tuple(row.storage_hosts),
        )
        session = PendingSession(
            id=session_id,
            enqueued_at=EPOCH + timedelta(microseconds=row.since_us),
            requirements=requirements,
            kernel_ids=tuple([kernel.kernel_id for kernel in kernels]),
            priority=row.priority,
            scopes=scopes,
            tenants=tenants,
            max_runtime=None if row.max_runtime_s is None else timedelta(seconds=row.max_runtime_s),
            preemption_claim=claims.get(session_id),
            head_rank=head_ranks.get(session_id, 0),
        )
        sessions.append(session)
    return PendingRead(tuple(sessions), frozenset(scopes_of_all.keys), frozenset(group_keys))


def _requirements(  # noqa: PLR0913 -- all by name
    architecture: str,
    asked: tuple[str, ...],
    reservations: frozenset[int],
    agent_id: int | None,
    may_run_elsewhere: bool,
    device_model: str,
    gang: str,
    rule: str,
    group: str | None,
    device_mem_bytes: int,
    device_api_version: int,
    linked_devices: bool,
    isolation: str,
    storage_hosts: tuple[str, ...],
) -> Requirements:
    slots_of = {text: ResourceSlots(json.loads(text)) for text in asked}
    kernels = tuple([slots_of[text] for text in asked])
    return Requirements(
        architecture,
        kernels,
        agent_id,
        reservations,
        may_run_elsewhere,
        device_model,
        Gang(gang) if len(kernels) > 1 else Gang.ANYWHERE,
        placement_group(group, rule),
        device_mem_bytes,
        device_api_version,
        linked_devices,
        max(least_isolation(slots, isolation) for slots in slots_of.values()),
        storage_hosts=frozenset(storage_hosts),
    )


def least_isolation(slots: ResourceSlots, isolation: str) -> int:
    """Return the rank of the isolation that a part of a device must have; 0 for whole devices."""
    return Isolation(isolation).rank if isolation and fractional_slot(slots) else 0
