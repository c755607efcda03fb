"""The pure scheduling engine: `plan(snapshot, now) -> Plan`. No Django, no input or output, no clock."""

from scheduler.engine.model import (
    AgentView,
    Allowance,
    Deferral,
    Excess,
    Explanation,
    Needs,
    PendingSession,
    Placement,
    Plan,
    Policy,
    ReasonCode,
    Reservation,
    Rules,
    Running,
    Snapshot,
    Strategy,
    Tenant,
)
from scheduler.engine.planner import plan

__all__ = [
    "AgentView",
    "Allowance",
    "Deferral",
    "Excess",
    "Explanation",
    "Needs",
    "PendingSession",
    "Placement",
    "Plan",
    "Policy",
    "ReasonCode",
    "Reservation",
    "Rules",
    "Running",
    "Snapshot",
    "Strategy",
    "Tenant",
    "plan",
]
