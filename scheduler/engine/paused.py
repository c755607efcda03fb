"""Plan of a paused group: no placements, queue positions are kept."""

from datetime import datetime

from common.values.resources import ResourceSlots
from scheduler.engine.plan import Deferral, Explanation, Plan
from scheduler.engine.policy.fair_share import Shares
from scheduler.engine.policy.queue_order import Line
from scheduler.engine.snapshot import Needs, Snapshot
from scheduler.engine.values import ReasonCode


def plan_of_pause(snapshot: Snapshot, now: datetime) -> Plan:
    """Defer each pending session, in queue order."""
    known: dict[Needs, Explanation] = {}
    deferrals, heads, gathered = [], [], []
    total: dict[str, int] = {}
    for agent in snapshot.agents:
        for name, amount in agent.capacity.items():
            total[name] = total.get(name, 0) + amount
    for position, session in enumerate(Line(snapshot, now, Shares(snapshot, total)), start=1):
        why = known.get(session.needs) or known.setdefault(session.needs, _why(session.needs))
        deferrals.append(Deferral(session.id, position, why))
        if session.head_rank:
            heads.append(session.id)
        if session.gathered:
            gathered.append(session.gathered)
    return Plan(
        group_id=snapshot.group_id,
        group_name=snapshot.group_name,
        epoch=snapshot.epoch,
        planned_at=now,
        deferrals=tuple(deferrals),
        heads=tuple(heads),
        gathered=tuple(gathered),
    )


def _why(needs: Needs) -> Explanation:
    """Explain the pause. Capacity is left out."""
    largest = max(needs.kernels, key=lambda slots: tuple(slots.items()))
    return Explanation(
        reason=ReasonCode.GROUP_PAUSED,
        architecture=needs.architecture,
        kernel_count=len(needs.kernels),
        asked=needs.total,
        asked_by_kernel=largest,
        best_agent=ResourceSlots(),
        group=ResourceSlots(),
        gang=needs.gang,
        companions=needs.companions,
    )
