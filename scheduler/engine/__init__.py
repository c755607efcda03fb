"""Pure scheduling engine: `plan(snapshot, now) -> Plan`. No Django, no I/O, no clock."""

from scheduler.engine.accelerators import OpenDevice, Share, SlotDevices
from scheduler.engine.agent_views import AgentView, Preemptible, Running, Window
from scheduler.engine.columns import column_of
from scheduler.engine.plan import (
    Deferral,
    DeviceRoom,
    Eviction,
    Excess,
    Explanation,
    KernelPlacement,
    Placement,
    Plan,
    Reservation,
    Reserved,
)
from scheduler.engine.planner import Planner, plan
from scheduler.engine.snapshot import (
    Allowance,
    Gathering,
    Needs,
    PendingSession,
    Preemption,
    Promise,
    Rules,
    Snapshot,
    Tenant,
)
from scheduler.engine.values import Companions, Gang, Host, PlacementRule, Policy, ReasonCode, Strategy
from scheduler.engine.what_if import Foresight

simulate = plan  # replays the plan of a recorded snapshot

__all__ = [
    "AgentView",
    "Allowance",
    "Companions",
    "Deferral",
    "DeviceRoom",
    "Eviction",
    "Excess",
    "Explanation",
    "Foresight",
    "Gang",
    "Gathering",
    "Host",
    "KernelPlacement",
    "Needs",
    "OpenDevice",
    "PendingSession",
    "Placement",
    "PlacementRule",
    "Plan",
    "Planner",
    "Policy",
    "Preemptible",
    "Preemption",
    "Promise",
    "ReasonCode",
    "Reservation",
    "Reserved",
    "Rules",
    "Running",
    "Share",
    "SlotDevices",
    "Snapshot",
    "Strategy",
    "Tenant",
    "Window",
    "column_of",
    "plan",
    "simulate",
]
