"""The pure scheduling engine: `plan(snapshot, now) -> Plan`. No Django, no input or output, no clock."""

from scheduler.engine.columns import column_of
from scheduler.engine.companions import Companions, Host, PlacementRule
from scheduler.engine.devices import OpenDevice, Share, SlotDevices
from scheduler.engine.foresight import Foresight
from scheduler.engine.gangs import Gang
from scheduler.engine.model import (
    AgentView,
    Allowance,
    Deferral,
    DeviceRoom,
    Eviction,
    Excess,
    Explanation,
    Gathering,
    KernelPlacement,
    Needs,
    PendingSession,
    Placement,
    Plan,
    Policy,
    Preemptible,
    Preemption,
    Promise,
    ReasonCode,
    Reservation,
    Reserved,
    Rules,
    Running,
    Snapshot,
    Strategy,
    Tenant,
    Window,
)
from scheduler.engine.planner import Planner, plan

simulate = plan  # what a kept snapshot led to, decided once more

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
