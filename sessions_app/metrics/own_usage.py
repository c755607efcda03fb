"""Computes the resources allocated to a user's live sessions, and their use."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import OuterRef, Prefetch, Subquery
from django.db.models.functions import JSONObject

from agents.core.states import AgentState
from common import clock
from common.actors import Actor
from common.values.resources import CPU, MEM, ResourceSlots
from sessions_app.metrics.collector import SAMPLE_S
from sessions_app.metrics.history import CURRENT_S
from sessions_app.models import ComputeSession, Kernel, KernelMetric
from sessions_app.selectors import own_sessions


@dataclass(frozen=True, slots=True)
class OwnUsage:
    """Allocation and use of live sessions.

    `allocated`: allocated to placed kernels. `measured`: the part of it that was measured recently.
    `used`: cores and memory in use of that part. `at`: the oldest of these measurements, or None.
    """

    allocated: ResourceSlots
    measured: ResourceSlots
    used: ResourceSlots
    at: datetime | None


def own_live_sessions(actor: Actor) -> list[ComputeSession]:
    """Return the actor's live sessions, newest first, with row data and each kernel's last sample.

    2 queries.
    """
    fresh = KernelMetric.objects.filter(
        kernel_id=OuterRef("pk"), span_s=SAMPLE_S, at__gte=clock.now() - timedelta(seconds=CURRENT_S)
    ).order_by("-at")
    reported = fresh.values(reported=JSONObject(cpu="cpu_milli", mem="mem_bytes", at="at"))[:1]
    kernels = Kernel.objects.select_related("agent").annotate(sample=Subquery(reported))
    sessions = own_sessions(actor).live().for_rows().prefetch_related(None)
    return list(sessions.prefetch_related(Prefetch("kernels", kernels)))


def sum_usage(sessions: Iterable[ComputeSession]) -> OwnUsage:
    """Return the use of sessions from `own_live_sessions`. No query."""
    allocated = measured = used = ResourceSlots()
    instants = []
    for session in sessions:
        kernels: Iterable[Any] = session.kernels.all()
        for kernel in kernels:
            if kernel.agent is None:
                continue
            allocated += kernel.slots
            if kernel.sample is not None:
                measured += kernel.slots
                used += ResourceSlots({CPU: kernel.sample["cpu"] or 0, MEM: kernel.sample["mem"] or 0})
                instants.append(datetime.fromisoformat(kernel.sample["at"]))
    return OwnUsage(allocated, measured, used, min(instants, default=None))


def allocated_by_group(sessions: Iterable[ComputeSession]) -> Mapping[int, ResourceSlots]:
    """Return the allocations on connected machines, by resource group id. No query."""
    found: dict[int, ResourceSlots] = {}
    for session in sessions:
        for kernel in session.kernels.all():
            if kernel.agent is not None and kernel.agent.state == AgentState.CONNECTED:
                group_id = kernel.agent.resource_group_id
                found[group_id] = found.get(group_id, ResourceSlots()) + kernel.slots
    return found
