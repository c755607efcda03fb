"""Write a plan to the database in one transaction, or nothing."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import IntegrityError, NotSupportedError, OperationalError, connection, transaction
from django.db.models import F
from psycopg.types.json import Jsonb

from agents.core.states import AgentState
from agents.models import Agent, AgentSlot
from common.actors import SYSTEM
from common.db.advisory_locks import LockTaken, wait_exclusive, was_locked
from common.db.prepared import array_of, is_outdated, prepared_cursor, unseen
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.values.resources import CPU
from scheduler.commit.accelerators import deal_devices
from scheduler.commit.cpu_pinning import CoreLoads, CoreUse
from scheduler.commit.pending_reasons import write_waiting
from scheduler.engine import KernelPlacement, Placement, Plan, column_of
from scheduler.engine.accelerators import Dealt, NoSuchDevices
from scheduler.run_state import advance
from scheduler.snapshot.gathering import gathered_as_json
from sessions_app.core.states import Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession, Kernel, KernelAllocation
from sessions_app.termination.preemption import Leave, give_notice

# Rows of `_LOCK_AGENTS` (free slots) and of `_CORES` (used cores).
_Rooms = tuple[Sequence[Any], Sequence[Any]]
GROUP_WAIT_S = 1  # commits are short: waiting for one costs less than discarding a plan
_WAITS_STILL = "status = 'PENDING' AND held_for = '' AND stops_at IS NULL"
# Agents are locked before their slots: the second part needs what the first returns.
_LOCK_AGENTS = f"""
    WITH agent AS MATERIALIZED (
        SELECT id, (data ->> 'cores')::int AS cores FROM {Agent._meta.db_table}
        WHERE id = ANY({unseen("agents", "bigint")}) AND state = '{AgentState.CONNECTED.value}' ORDER BY id FOR NO KEY UPDATE
    ), slot AS MATERIALIZED (
        SELECT agent_id, slot_name, capacity, capacity + surplus - occupied AS free FROM {AgentSlot._meta.db_table}
        WHERE agent_id = ANY((SELECT array_agg(id) FROM agent)::bigint[]) ORDER BY id FOR NO KEY UPDATE
    )
    SELECT agent.id, cores, slot_name, capacity, free FROM agent LEFT JOIN slot ON slot.agent_id = agent.id
"""
# Runs when the group is locked, so it sees all placements. LATERAL with OFFSET 0 makes PostgreSQL use
# the index for each agent, however few rows the other agents have.
_CORES = f"""
    SELECT held.* FROM unnest({unseen("agents", "bigint")}) AS agent (id), LATERAL (
        SELECT agent_id, amount, cpuset FROM {KernelAllocation._meta.db_table}
        WHERE agent_id = agent.id AND slot_name = '{CPU}' OFFSET 0
    ) AS held
"""
_PUT_KERNELS = f"""
    UPDATE {Kernel._meta.db_table} AS kernel SET agent_id = placed.agent_id
    FROM unnest({unseen("kernels", "uuid")}, %(agents)s::bigint[]) AS placed (id, agent_id) WHERE kernel.id = placed.id
"""
_ALLOCATE = f"""
    INSERT INTO {KernelAllocation._meta.db_table} (kernel_id, agent_id, slot_name, amount, cpuset, devices)
    SELECT kernel_id, agent_id, slot_name, amount, cpuset, devices FROM jsonb_to_recordset(%(held)s)
        AS held (kernel_id uuid, agent_id bigint, slot_name text, amount bigint, cpuset text, devices bigint[])
"""


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
    rows. Raises GroupBusy, StalePlan; then nothing was written.
    """
    with all_or_nothing(plan.group_name):
        lock_plans(plan.group_id)
        is_newest = advance(
            plan.group_id,
            plan.epoch,
            last_agent_id=_last_agent(plan),
            head_ids=_heads(plan),
            gathered=gathered_as_json(plan.gathered),
        )
        if not is_newest:
            raise _overtaken(plan)
        write_waiting(plan)
        give_notice(
            [Leave(each.session_id, each.agent_id, each.victims, each.ends_at) for each in plan.evictions]
        )
        placements = _of_these(
            plan, _lock_sessions([each.id for each in column_of(plan.placements, "session")])
        )
        return _place(placements, _hold_agents(_kernels_of(placements))) if placements else []


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
    except NotSupportedError as error:
        if is_outdated(error):
            raise StalePlan(f"A table changed while {group_name} was written.") from error
        raise
    except OperationalError as error:
        if was_locked(error):
            raise GroupBusy(f"Somebody holds rows that a plan of {group_name} needs.") from error
        raise


def lock_plans(group_id: int) -> None:
    """Lock the plans of this group until the transaction ends. Waits at most GROUP_WAIT_S. Raises
    GroupBusy.
    """
    try:
        wait_exclusive(f"plans of group {group_id}", wait_s=GROUP_WAIT_S)
    except LockTaken as taken:
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


def _overtaken(plan: Plan) -> StalePlan:
    return StalePlan(f"A newer plan than epoch {plan.epoch} of {plan.group_name} was committed.")


def _ask(statement: str, values: Mapping[str, Any]) -> list[Any]:
    with prepared_cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def _of_these(plan: Plan, session_ids: set[UUID]) -> list[Placement]:
    return [placement for placement in plan.placements if placement.session_id in session_ids]


def _kernels_of(placements: Sequence[Placement]) -> list[KernelPlacement]:
    return [each for placement in placements for each in placement.kernels]


def _agents_of(kernels: Sequence[KernelPlacement]) -> str:
    return array_of({kernel.agent_id for kernel in kernels})


def _hold_agents(kernels: Sequence[KernelPlacement]) -> _Rooms:
    """Lock the agents of these kernels and their slots until the transaction ends. 2 queries."""
    values = {"agents": _agents_of(kernels)}
    return _ask(_LOCK_AGENTS, values), _ask(_CORES, values)


def _place(placements: Sequence[Placement], ground: _Rooms) -> list[UUID]:
    """Write the placements. The caller has locked the sessions, and the agents in `ground`."""
    kernels, (rooms, used) = _kernels_of(placements), ground
    cores = _demand_room(kernels, rooms)
    # Before the status change: slots of agents are locked before quota rows (ADR 8).
    _allocate(kernels, _cpusets(kernels, cores, used), _deal(kernels))
    moved = transitions.transition_many(
        [placement.session_id for placement in placements],
        frm=Status.PENDING,
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
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT id FROM {ComputeSession._meta.db_table}
            WHERE id = ANY(%s::uuid[]) AND {_WAITS_STILL}
            ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
            """,
            [array_of(session_ids)],
        )
        return {session_id for (session_id,) in cursor.fetchall()}


def _demand_room(kernels: Sequence[KernelPlacement], rooms: Sequence[Any]) -> dict[int, int]:
    """Return the number of cores of each locked agent, 0 if unknown. Raises StalePlan if an agent
    is not connected or has too little free.
    """
    needed: dict[int, Counter[str]] = defaultdict(Counter)
    for kernel in kernels:
        asked = needed[kernel.agent_id]
        for name, amount in kernel.slots.items():
            asked[name] += amount
    cores = {agent_id: count or 0 for agent_id, count, *_ in rooms}
    free = {(agent_id, name): amount for agent_id, _, name, _has, amount in rooms if name is not None}
    # One kernel can exceed an agent's real capacity only if more is free than the agent has
    # (overcommit).
    has = {(room[0], room[2]): room[3] for room in rooms if room[2] is not None and room[4] > room[3]}
    if any(
        amount > has.get((each.agent_id, name), amount)
        for each in (kernels if has else ())
        for name, amount in each.slots.items()
    ):
        raise StalePlan("A machine has less than one container was to get there.")
    for agent_id, asked in needed.items():
        if agent_id not in cores or any(
            amount > free.get((agent_id, name), 0) for name, amount in asked.items()
        ):
            raise StalePlan(f"Agent {agent_id} has no room for {dict(asked)} any more.")
    return cores


def _cpusets(
    kernels: Sequence[KernelPlacement], cores: Mapping[int, int], used: Sequence[tuple[int, int, str]]
) -> list[str]:
    """Return the cpuset of each kernel, given the cores `used` on the locked agents."""
    loads = {agent_id: CoreLoads(count) for agent_id, count in cores.items()}
    for agent_id, amount, cpuset in used:
        if agent_id in loads:
            loads[agent_id].add(CoreUse(amount, cpuset))
    return [loads[kernel.agent_id].take(kernel.slots[CPU]) for kernel in kernels]


def _deal(kernels: Sequence[KernelPlacement]) -> list[Dealt]:
    try:
        return deal_devices(kernels)
    except NoSuchDevices as error:
        raise StalePlan(str(error)) from error


def _allocate(kernels: Sequence[KernelPlacement], cpusets: Sequence[str], dealt: Sequence[Dealt]) -> None:
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
        for kernel, cpuset, devices in zip(kernels, cpusets, dealt, strict=True)
        for name, amount in kernel.slots.items()
    ]
    placed = {
        "kernels": array_of(kernel.kernel_id for kernel in kernels),
        "agents": array_of(kernel.agent_id for kernel in kernels),
    }
    with prepared_cursor() as cursor:
        cursor.execute(_PUT_KERNELS, placed)
        cursor.execute(_ALLOCATE, {"held": Jsonb(held)})
