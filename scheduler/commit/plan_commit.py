"""Write a plan to the database in one transaction, or nothing."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models import F

from agents.core.states import AgentState
from agents.models import Agent, AgentDevice, AgentSlot
from common.actors import SYSTEM
from common.db.advisory_locks import LockTimeout, lock_exclusive, was_locked
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.values.resources import CPU
from scheduler.commit.cpu_pinning import CoreLoads, CoreUse, parse_cores
from scheduler.commit.device_tables import assign_kernel_devices, read_device_tables
from scheduler.commit.pending_reasons import write_pending_reasons
from scheduler.engine import KernelPlacement, Placement, Plan, column_of
from scheduler.engine.accelerators import DeviceAssignment, NoSuchDevices
from scheduler.run_state import accumulations_to_json, advance
from sessions_app.core.queue_options import Hold
from sessions_app.core.states import Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession, Kernel, KernelAllocation
from sessions_app.termination.preemption import PreemptionPlan, record_preemptions

GROUP_WAIT_S = 1  # commits are short: waiting for one costs less than discarding a plan
# SQL for both, as `bulk_update` and `bulk_create` of a large plan take several times as long.
_PUT_KERNELS = f"""
    UPDATE {Kernel._meta.db_table} AS kernel SET agent_id = placed.agent_id
    FROM unnest(%(kernels)s::uuid[], %(agents)s::bigint[]) AS placed (id, agent_id) WHERE kernel.id = placed.id
"""
_ALLOCATE = f"""
    INSERT INTO {KernelAllocation._meta.db_table} (kernel_id, agent_id, slot_name, amount, cpuset, devices)
    SELECT kernel_id, agent_id, slot_name, amount, cpuset, devices FROM jsonb_to_recordset(%(held)s::jsonb)
        AS held (kernel_id uuid, agent_id bigint, slot_name text, amount bigint, cpuset text, devices bigint[])
"""


@dataclass(frozen=True, slots=True)
class _LockedAgents:
    """Connected agents locked until the transaction ends, with their slots. `cores`: number of
    cores by agent, 0 if unknown. `numa_cores`: {agent: {NUMA node: cores like "0-15"}} where known.
    """

    cores: Mapping[int, int]
    numa_cores: Mapping[int, Mapping[str, str]]
    slots: Sequence[AgentSlot]


class GroupBusy(Exception):
    """Raised if another worker holds the plan lock or rows of this group for longer than the wait
    limit.
    """


class StalePlan(Exception):
    """The group changed after the snapshot. Nothing was written; a new snapshot is needed."""


def commit_plan(plan: Plan) -> list[UUID]:
    """Write placements and pending reasons. Return the ids of the sessions now SCHEDULED.

    Sessions cancelled since the snapshot are skipped. Each placed session gets its allocation rows
    and the agents of its kernels; LAUNCH_SESSION is sent on commit. Rows are locked in the global
    order: run state of the group, sessions by id, agents by id, their slots, their devices, quota
    rows. Raises GroupBusy, StalePlan, DevicesTaken; then nothing was written.
    """
    with all_or_nothing(plan.group_name):
        lock_plans(plan.group_id)
        is_newest = advance(
            plan.group_id,
            plan.epoch,
            last_agent_id=_last_agent(plan),
            head_ids=_heads(plan),
            gathered=accumulations_to_json(plan.accumulations),
        )
        if not is_newest:
            raise _stale_plan(plan)
        write_pending_reasons(plan)
        record_preemptions(
            [
                PreemptionPlan(each.session_id, each.agent_id, each.victims, each.ends_at)
                for each in plan.evictions
            ]
        )
        placements = _placements_for(
            plan, _lock_sessions([each.id for each in column_of(plan.placements, "session")])
        )
        return _place(placements, _lock_agents(_kernels(placements))) if placements else []


@contextmanager
def all_or_nothing(group_name: str) -> Iterator[None]:
    """Open a transaction for placements in this group. Raises StalePlan if the database refuses
    them, GroupBusy if a lock is held too long.
    """
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        # Constraints on what an agent has allocated, unreachable while all writers take the locks;
        # and on quotas, if the tick of another group was faster.
        raise StalePlan(f"The database refused the plan of {group_name}: {error}") from error
    except OperationalError as error:
        if was_locked(error):
            raise GroupBusy(f"Somebody holds rows that a plan of {group_name} needs.") from error
        raise


def lock_plans(group_id: int) -> None:
    """Lock the plans of this group until the transaction ends. Waits at most GROUP_WAIT_S. Raises
    GroupBusy.
    """
    try:
        lock_exclusive(f"plans of group {group_id}", wait_s=GROUP_WAIT_S)
    except LockTimeout as taken:
        raise GroupBusy(f"Another worker commits a plan of resource group {group_id}.") from taken


def _last_agent(plan: Plan) -> int | F:
    """Return the agent that gets the last kernel of the plan; unchanged if it places none."""
    return plan.placements[-1].agent_ids[-1] if plan.placements else F("last_agent_id")


def _heads(plan: Plan) -> list[UUID]:
    """Return the pinned heads, including those placed now: one that is skipped because its row is
    locked stays pinned.
    """
    placed = [session.id for session in column_of(plan.placements, "session") if session.head_rank]
    return placed + list(plan.heads)


def _stale_plan(plan: Plan) -> StalePlan:
    return StalePlan(f"A newer plan than epoch {plan.epoch} of {plan.group_name} was committed.")


def _placements_for(plan: Plan, session_ids: set[UUID]) -> list[Placement]:
    return [placement for placement in plan.placements if placement.session_id in session_ids]


def _kernels(placements: Sequence[Placement]) -> list[KernelPlacement]:
    return [each for placement in placements for each in placement.kernels]


def _lock_agents(kernels: Sequence[KernelPlacement]) -> _LockedAgents:
    """Lock the connected agents of these kernels, then their slots. 2 queries."""
    agents = Agent.objects.filter(pk__in={kernel.agent_id for kernel in kernels})
    connected = agents.in_state(AgentState.CONNECTED).order_by("pk").select_for_update(no_key=True)
    rows = list(connected.values_list("pk", "data__cores", "data__numa_cores"))
    cores = {agent_id: count or 0 for agent_id, count, _ in rows}
    numa_cores = {agent_id: nodes for agent_id, _, nodes in rows if nodes}
    slots = AgentSlot.objects.filter(agent__in=list(cores)).order_by("pk").select_for_update(no_key=True)
    return _LockedAgents(cores, numa_cores, list(slots))


def _place(placements: Sequence[Placement], agents: _LockedAgents) -> list[UUID]:
    """Write the placements. The caller has locked the sessions and the agents."""
    kernels = _kernels(placements)
    _check_capacity(kernels, agents)
    devices = _assign_devices(kernels)
    # Before the status change: slots of agents are locked before quota rows (ADR 8).
    _allocate(
        kernels, _cpusets(kernels, agents.cores, _near_cores(kernels, devices, agents.numa_cores)), devices
    )
    moved = transitions.transition_many(
        [placement.session_id for placement in placements],
        from_status=Status.PENDING,
        to=Status.SCHEDULED,
        reason=Reason.PLACED,
        actor=SYSTEM,
    )
    for session_id in moved:
        enqueue_on_commit(TaskName.LAUNCH_SESSION, session_id=str(session_id))
    return moved


def _lock_sessions(session_ids: list[UUID]) -> set[UUID]:
    """Lock the sessions that are still waiting, and return their ids. Skips rows locked by others,
    and sessions that were held or ended since the plan was made.
    """
    if not session_ids:
        return set()
    waiting = ComputeSession.objects.filter(
        pk__in=session_ids, status=Status.PENDING.value, held_for=Hold.NOTHING.value, stops_at=None
    )
    locked = waiting.order_by("pk").select_for_update(no_key=True, skip_locked=True)
    return set(locked.values_list("pk", flat=True))


def _check_capacity(kernels: Sequence[KernelPlacement], agents: _LockedAgents) -> None:
    """Raise StalePlan if an agent is not connected or has too little free."""
    needed: dict[int, Counter[str]] = defaultdict(Counter)
    for kernel in kernels:
        asked = needed[kernel.agent_id]
        for name, amount in kernel.slots.items():
            asked[name] += amount
    free = {(slot.agent_id, slot.slot_name): slot.allocatable - slot.occupied for slot in agents.slots}
    # One kernel can exceed an agent's real capacity only if more is free than the agent has
    # (overcommit).
    capacity = {(slot.agent_id, slot.slot_name): slot.capacity for slot in agents.slots}
    has = {key: capacity[key] for key, amount in free.items() if amount > capacity[key]}
    if any(
        amount > has.get((each.agent_id, name), amount)
        for each in (kernels if has else ())
        for name, amount in each.slots.items()
    ):
        raise StalePlan("A machine has less than one container was to get there.")
    for agent_id, asked in needed.items():
        if agent_id not in agents.cores or any(
            amount > free.get((agent_id, name), 0) for name, amount in asked.items()
        ):
            raise StalePlan(f"Agent {agent_id} has no room for {dict(asked)} any more.")


def _near_cores(
    kernels: Sequence[KernelPlacement],
    assignments: Sequence[DeviceAssignment],
    numa_cores: Mapping[int, Mapping[str, str]],
) -> list[Collection[int]]:
    """Return for each kernel the cores in the NUMA nodes of its devices; () if unknown. 1 query, none if
    no agent with known NUMA nodes gives devices.
    """
    ids = [
        [pk for each in devices.values() for pk in each] if kernel.agent_id in numa_cores else []
        for kernel, devices in zip(kernels, assignments, strict=True)
    ]
    if not any(ids):
        return [()] * len(kernels)
    rows = AgentDevice.objects.filter(pk__in=[pk for each in ids for pk in each])
    nodes = dict(rows.order_by().values_list("pk", "numa_node"))
    return [
        {
            core
            for node in {nodes.get(pk) for pk in each}
            for core in parse_cores(numa_cores.get(kernel.agent_id, {}).get(str(node), ""))
        }
        for kernel, each in zip(kernels, ids, strict=True)
    ]


def _cpusets(
    kernels: Sequence[KernelPlacement], cores: Mapping[int, int], near: Sequence[Collection[int]]
) -> list[str]:
    """Return the cpuset of each kernel, of cores that are `near` among equals. `cores`: of the locked
    agents, so the cores in use there cannot change. 1 query.
    """
    loads = {agent_id: CoreLoads(count) for agent_id, count in cores.items()}
    used = KernelAllocation.objects.filter(agent__in=list(cores), slot_name=CPU)
    for agent_id, amount, cpuset in used.values_list("agent_id", "amount", "cpuset"):
        loads[agent_id].add(CoreUse(amount, cpuset))
    return [
        loads[kernel.agent_id].take(kernel.slots[CPU], cores)
        for kernel, cores in zip(kernels, near, strict=True)
    ]


def _assign_devices(kernels: Sequence[KernelPlacement]) -> list[DeviceAssignment]:
    """Choose the devices of the kernels, and write whose parts they are from now on."""
    tables = read_device_tables(kernels)
    try:
        assignments = assign_kernel_devices(kernels, tables)
    except NoSuchDevices as error:
        raise StalePlan(str(error)) from error
    claims = {pk: project for table in tables.values() for pk, project in table.claims.items()}
    for project in sorted({*claims.values()}):
        claimed = [pk for pk, owner in claims.items() if owner == project]
        AgentDevice.objects.filter(pk__in=claimed).update(sharing_project=project)
    return assignments


def _allocate(
    kernels: Sequence[KernelPlacement], cpusets: Sequence[str], assignments: Sequence[DeviceAssignment]
) -> None:
    """Write the agents and allocations of these kernels, with cores and devices. 2 queries."""
    held = [
        {
            "kernel_id": str(kernel.kernel_id),
            "agent_id": kernel.agent_id,
            "slot_name": name,
            "amount": amount,
            "cpuset": cpuset if name == CPU else "",
            "devices": devices.get(name, ()),
        }
        for kernel, cpuset, devices in zip(kernels, cpusets, assignments, strict=True)
        for name, amount in kernel.slots.items()
    ]
    placed: dict[str, Any] = {
        "kernels": [kernel.kernel_id for kernel in kernels],
        "agents": [kernel.agent_id for kernel in kernels],
    }
    with connection.cursor() as cursor:
        cursor.execute(_PUT_KERNELS, placed)
        cursor.execute(_ALLOCATE, {"held": json.dumps(held)})
