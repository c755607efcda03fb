"""Plan of a paused group: no placements, queue positions are kept."""

from datetime import datetime

from common.values.resources import ResourceSlots
from scheduler.engine.plan import Deferral, Explanation, Plan
from scheduler.engine.policy.fair_share import TenantShares
from scheduler.engine.policy.queue_order import QueueOrder
from scheduler.engine.snapshot import Requirements, Snapshot
from scheduler.engine.values import ReasonCode


def plan_while_paused(snapshot: Snapshot, now: datetime) -> Plan:
    """Defer each pending session, in queue order."""
    known: dict[Requirements, Explanation] = {}
    deferrals, heads, gathered = [], [], []
    total: dict[str, int] = {}
    for agent in snapshot.agents:
        for name, amount in agent.capacity.items():
            total[name] = total.get(name, 0) + amount
    for position, session in enumerate(QueueOrder(snapshot, now, TenantShares(snapshot, total)), start=1):
        why = known.get(session.requirements) or known.setdefault(
            session.requirements, _why(session.requirements)
        )
        deferrals.append(Deferral(session.id, position, why))
        if session.head_rank:
            heads.append(session.id)
        if session.accumulation:
            gathered.append(session.accumulation)
    return Plan(
        group_id=snapshot.group_id,
        group_name=snapshot.group_name,
        epoch=snapshot.epoch,
        planned_at=now,
        deferrals=tuple(deferrals),
        heads=tuple(heads),
        accumulations=tuple(gathered),
    )


def _why(requirements: Requirements) -> Explanation:
    """Explain the pause. Capacity is left out."""
    largest = max(requirements.kernels, key=lambda slots: tuple(slots.items()))
    return Explanation(
        reason=ReasonCode.GROUP_PAUSED,
        architecture=requirements.architecture,
        kernel_count=len(requirements.kernels),
        requested=requirements.total,
        requested_by_kernel=largest,
        best_agent=ResourceSlots(),
        group_total=ResourceSlots(),
        gang=requirements.gang,
        placement_group=requirements.placement_group,
    )
