"""One pass over the sessions that wait: who runs where, and why the others wait on."""

from collections.abc import Iterator
from datetime import datetime

from common.slots import ResourceSlots
from scheduler.engine.allowances import Allowances
from scheduler.engine.diagnosis import Diagnosis
from scheduler.engine.machines import Machines
from scheduler.engine.model import KernelPlacement, PendingSession, Placement, Plan, Snapshot
from scheduler.engine.vectors import Layout

Shape = tuple[str, int | None, tuple[int, ...]]


def plan(snapshot: Snapshot, now: datetime) -> Plan:
    """Decide for each pending session of the snapshot: a placement, or a deferral with its reason.

    Promises: no agent gets more than it has free, no scope more than it may hold; a session gets an agent for each
    kernel or for none; equal snapshots give equal plans; of two sessions with equal needs, scopes and priority the
    older never waits while the younger runs. A session without room does not stop the pass: those behind it may start before it, and
    nothing yet keeps room for it, so small sessions can hold up a large one for as long as they keep coming.
    """
    layout = Layout({name for slots in _all_slots(snapshot) for name in slots})
    machines = Machines(snapshot, layout)
    allowances = Allowances(snapshot.allowances)
    placements: list[Placement] = []
    waiting: list[PendingSession] = []
    without_room: set[Shape] = set()  # within a pass room only shrinks: what failed once fails again

    for session in in_order(snapshot):
        if allowances.excess(session):
            waiting.append(session)
            continue
        kernels = [(layout.pack_request(kernel.slots), kernel) for kernel in session.kernels]
        kernels.sort(key=lambda pair: pair[0], reverse=True)
        requests = tuple(request for request, _ in kernels)
        shape = (session.architecture, session.designated_agent_id, requests)
        agent_ids = None if shape in without_room else machines.place(session, requests)
        if agent_ids is None:
            without_room.add(shape)
            waiting.append(session)
            continue
        pairs = zip(kernels, agent_ids, strict=True)
        placed = tuple(KernelPlacement(kernel.id, agent_id, kernel.slots) for (_, kernel), agent_id in pairs)
        placements.append(Placement(session.id, placed))
        allowances.take(session)

    diagnosis = Diagnosis(snapshot, machines, layout, allowances)
    deferrals = tuple(diagnosis.of(session, position) for position, session in enumerate(waiting, start=1))
    return Plan(snapshot.group_id, snapshot.group_name, snapshot.epoch, now, tuple(placements), deferrals)


def in_order(snapshot: Snapshot) -> list[PendingSession]:
    """Pending sessions in the order they are tried: higher priority, then older, then smaller id."""
    return sorted(snapshot.pending, key=lambda session: (-session.priority, session.enqueued_at, session.id))


def _all_slots(snapshot: Snapshot) -> Iterator[ResourceSlots]:
    for agent in snapshot.agents:
        yield agent.capacity
        yield agent.free
    for session in snapshot.pending:
        for kernel in session.kernels:
            yield kernel.slots
