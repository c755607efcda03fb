"""Reads one resource group into the engine's picture of it."""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from agents.models import Agent, AgentSlot, ResourceGroup
from agents.states import AgentState
from common.slots import ResourceSlots
from scheduler.engine import AgentView, KernelRequest, PendingSession, Policy, Snapshot, Strategy
from sessions_app.models import ComputeSession, Kernel
from sessions_app.states import Status


def read_snapshot(group_id: int) -> Snapshot:
    """The group's agents and pending sessions. 4 queries, any number of rows.

    The epoch is read first: whatever another tick commits during the reads makes the plan stale, and the
    commit finds that out. Raises ResourceGroup.DoesNotExist.
    """
    group = ResourceGroup.objects.only("name", "epoch", "strategy", "scheduler").get(pk=group_id)
    return Snapshot(
        group_id=group.pk,
        group_name=group.name,
        epoch=group.epoch,
        agents=tuple(_agents(group_id)),
        pending=tuple(_pending(group_id)),
        strategy=Strategy(group.strategy),
        policy=Policy(group.scheduler),
    )


def groups_with_pending_sessions() -> list[int]:
    """Ids of the resource groups in which at least one session waits. 1 query."""
    pending = ComputeSession.objects.filter(status=Status.PENDING.value).order_by("resource_group_id")
    return list(pending.values_list("resource_group_id", flat=True).distinct())


def _agents(group_id: int) -> Iterator[AgentView]:
    capacity: dict[int, dict[str, int]] = {}
    free: dict[int, dict[str, int]] = {}
    slots = AgentSlot.objects.filter(agent__resource_group_id=group_id)
    for agent_id, name, amount, occupied in slots.values_list(
        "agent_id", "slot_name", "capacity", "occupied"
    ):
        capacity.setdefault(agent_id, {})[name] = amount
        free.setdefault(agent_id, {})[name] = amount - occupied
    agents = Agent.objects.filter(resource_group_id=group_id).in_use()
    for agent_id, architecture, state in agents.values_list("pk", "architecture", "state"):
        yield AgentView(
            id=agent_id,
            architecture=architecture,
            capacity=ResourceSlots(capacity.get(agent_id)),
            free=ResourceSlots(free.get(agent_id)),
            is_schedulable=state == AgentState.CONNECTED,
        )


def _pending(group_id: int) -> Iterator[PendingSession]:
    kernels = (
        Kernel.objects.filter(
            session__resource_group_id=group_id, session__status=Status.PENDING.value, session__stops_at=None
        )
        .order_by("session_id", "role", "index")
        .values(
            "pk",
            "session_id",
            "session__created_at",
            "session__priority",
            "session__requested_slots",
            "session__image__architecture",
        )
    )
    for session_id, rows in groupby(kernels.iterator(), key=itemgetter("session_id")):
        same_session = list(rows)  # each row repeats the columns of its session
        session = same_session[0]
        slots = ResourceSlots(session["session__requested_slots"])
        yield PendingSession(
            id=session_id,
            enqueued_at=session["session__created_at"],
            architecture=session["session__image__architecture"],
            kernels=tuple(KernelRequest(row["pk"], slots) for row in same_session),
            priority=session["session__priority"],
        )
