"""Measure the engine on the workloads: decisions per second, fairness and unused capacity."""

import gc
import time
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import chain
from uuid import UUID

from common.values.resources import CPU, MEM, ResourceSlots
from scheduler.engine import (
    AgentView,
    PendingSession,
    Planner,
    Policy,
    Quota,
    Requirements,
    Rules,
    SlotDevices,
    Snapshot,
    Strategy,
    plan,
)
from tests.bench.scheduler_workload import GIB, NODE, WORKLOADS, Session, Size, Workload, mixed

ARCHITECTURE, GPU = "x86_64", "cuda"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
MEASURED_S = 0.3
"""Shortest total time of a measurement; shorter passes are repeated."""


def snapshot_of(workload: Workload, policy: Policy, strategy: Strategy = Strategy.CONCENTRATED) -> Snapshot:
    """Return the engine's input for a workload.

    Each domain, project and user has a limit that nobody reaches but that is checked for each
    session. The youngest session is submitted now, each other a millisecond before the next;
    priorities grow with the wait. Devices of each node are listed one by one; unallocated ones are
    whole.
    """
    held, limit = slots_of(workload.held), slots_of(NODE) * workload.nodes
    oldest = NOW - timedelta(milliseconds=len(workload.sessions))
    scopes = {key for session in workload.sessions for key in _scopes(session)}
    devices = (
        SlotDevices(GPU, NODE.milli_gpus // 1000, (NODE.milli_gpus - workload.held.milli_gpus) // 1000),
    )
    return Snapshot(
        group_id=1,
        group_name="bench",
        epoch=1,
        agents=tuple(
            AgentView(number, ARCHITECTURE, slots_of(NODE), slots_of(NODE) - held, devices=devices)
            for number in range(workload.nodes)
        ),
        pending=tuple(_pending(session, oldest) for session in workload.sessions),
        rules=Rules(strategy, policy, ageing=timedelta(hours=1)),
        quotas=tuple(Quota(key, key.partition(":")[0], key, limit, {}) for key in sorted(scopes)),
    )


def _pending(session: Session, oldest: datetime) -> PendingSession:
    first_id, scopes = session.number << 8, _scopes(session)
    return PendingSession(
        id=UUID(int=session.number),
        enqueued_at=oldest + timedelta(milliseconds=session.number),
        requirements=_needs(session.size, session.containers),
        kernel_ids=tuple(UUID(int=first_id + index) for index in range(session.containers)),
        scopes=scopes,
        tenants=scopes,
    )


@cache
def _needs(size: Size, containers: int) -> Requirements:
    return Requirements(ARCHITECTURE, (slots_of(size),) * containers)


def slots_of(size: Size) -> ResourceSlots:
    """Return the amounts in base units."""
    return ResourceSlots({CPU: size.cores * 1000, MEM: size.mem_gib * GIB, GPU: size.milli_gpus})


def _scopes(session: Session) -> tuple[str, ...]:
    return _scopes_of(session.domain, session.project, session.user)


@cache
def _scopes_of(domain: int, project: int, user: int) -> tuple[str, ...]:
    """Return the scopes of an owner: one object for all its sessions, as in a group's snapshot."""
    return f"domain:{domain}", f"project:{project}", f"user:{user}"


@lru_cache(maxsize=2)
def mixed_snapshot(
    nodes: int,
    pending: int,
    policy: Policy,
    *,
    is_fractional: bool = False,
    strategy: Strategy = Strategy.CONCENTRATED,
) -> Snapshot:
    return snapshot_of(mixed(nodes, pending, is_fractional=is_fractional), policy, strategy)


def pass_s(snapshot: Snapshot) -> float:
    """Return the mean CPU seconds of one pass, over as many as fit in `MEASURED_S`, at least one.

    Each answer is read once. As in a worker with repeated ticks, the planner knows agents,
    requirements and limits from an earlier pass, but not the pending sessions.
    """
    planner = Planner()
    planner.plan(snapshot, NOW)
    gc.collect()
    took_s = passes = 0.0
    while passes == 0 or took_s < MEASURED_S:
        began_at = time.process_time()
        decided = planner.plan(snapshot, NOW)
        answered = sum(1 for _ in chain(decided.placements, decided.deferrals))
        took_s += time.process_time() - began_at
        passes += 1
        assert answered == len(snapshot.pending)
    return took_s / passes


def gpus_by_user(policy: Policy, name: str) -> dict[int, float]:
    """Return the GPUs that one pass over the workload of this name gives each user."""
    workload = WORKLOADS[name]()
    milli = dict.fromkeys((session.user for session in workload.sessions), 0)
    for placement in plan(snapshot_of(workload, policy), NOW).placements:
        user = workload.sessions[placement.session_id.int].user
        milli[user] += sum(kernel.slots[GPU] for kernel in placement.kernels)
    return {user: amount / 1000 for user, amount in milli.items()}
