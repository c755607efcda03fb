"""Pure scheduling engine: `plan(snapshot, now) -> Plan`. No Django, no I/O, no clock."""

from scheduler.engine.accelerators import DeviceShare, PartlyFreeDevice, SlotDevices
from scheduler.engine.agent_views import (
    AgentView,
    PreemptibleAllocation,
    ReservationWindow,
    RunningAllocation,
)
from scheduler.engine.columns import column_of
from scheduler.engine.plan import (
    BackfillReservation,
    Deferral,
    Eviction,
    Excess,
    Explanation,
    FreeDevices,
    KernelPlacement,
    LinkedRoom,
    Placement,
    Plan,
    ReservedAgents,
    UnmetDemand,
    WhatIf,
)
from scheduler.engine.planner import Planner, plan
from scheduler.engine.snapshot import (
    Accumulation,
    PendingSession,
    PreemptionClaim,
    PreemptionRule,
    Quota,
    Requirements,
    Rules,
    Snapshot,
    Tenant,
)
from scheduler.engine.values import (
    Demand,
    Gang,
    GroupHost,
    PlacementGroup,
    PlacementRule,
    Policy,
    ReasonCode,
    Strategy,
)

simulate = plan  # replays the plan of a recorded snapshot

__all__ = [
    "Accumulation",
    "AgentView",
    "BackfillReservation",
    "Deferral",
    "Demand",
    "DeviceShare",
    "Eviction",
    "Excess",
    "Explanation",
    "FreeDevices",
    "Gang",
    "GroupHost",
    "KernelPlacement",
    "LinkedRoom",
    "PartlyFreeDevice",
    "PendingSession",
    "Placement",
    "PlacementGroup",
    "PlacementRule",
    "Plan",
    "Planner",
    "Policy",
    "PreemptibleAllocation",
    "PreemptionClaim",
    "PreemptionRule",
    "Quota",
    "ReasonCode",
    "Requirements",
    "ReservationWindow",
    "ReservedAgents",
    "Rules",
    "RunningAllocation",
    "SlotDevices",
    "Snapshot",
    "Strategy",
    "Tenant",
    "UnmetDemand",
    "WhatIf",
    "column_of",
    "plan",
    "simulate",
]
