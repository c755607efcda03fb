"""One pass over the sessions that wait: who runs where, and why the others wait on."""

from datetime import datetime

from scheduler.engine.allowances import Allowances, charge, exceeded
from scheduler.engine.diagnosis import Diagnosis
from scheduler.engine.machines import Machines
from scheduler.engine.model import (
    PendingSession,
    Placement,
    Plan,
    Reservation,
    Snapshot,
)
from scheduler.engine.ordering import in_order
from scheduler.engine.reservations import soonest
from scheduler.engine.shapes import Shape
from scheduler.engine.shares import Shares
from scheduler.engine.vectors import Layout


def plan(snapshot: Snapshot, now: datetime) -> Plan:
    """Decide for each pending session of the snapshot: a placement, or a deferral with its reason.

    Promises: no agent gets more than it has free, no scope more than it may hold; a session gets an agent for each
    kernel or for none; equal snapshots give equal plans. A session without room does not stop the pass: those behind it
    may start before it, but for the first that finds none room is kept, so that none of them delays it.
    """
    return _Pass(snapshot, now).run()


class _Pass:
    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self._snapshot = snapshot
        self._now = now
        self._layout = Layout(_slot_names(snapshot))
        self._shares = Shares(snapshot)
        self._machines = Machines(snapshot, self._layout, self._shares, now)
        self._allowances = Allowances(snapshot.allowances, self._layout)
        self._reservations: list[Reservation] = []

    def run(self) -> Plan:
        placements: list[Placement] = []
        waiting: list[tuple[PendingSession, Shape]] = []
        machines, allowances, shares = self._machines, self._allowances, self._shares
        for session in in_order(self._snapshot, self._now, shares):
            shape = machines.shape_of(session.needs)
            accounts = allowances.of(session.scopes)
            if accounts and (account := exceeded(accounts, shape)):
                if self._has_waited(session):
                    allowances.keep(account, shape)
                waiting.append((session, shape))
                continue
            until = None if session.lasts is None else self._now + session.lasts
            # What ends in time may find room that is kept, though nobody else of its shape did.
            is_hopeless = shape.has_no_room and not machines.keeps_beyond(until)
            agent_ids = None if is_hopeless else machines.place(shape, until)
            if agent_ids is None:
                self._keep_room(session, shape)
                shape.has_no_room = True
                waiting.append((session, shape))
                continue
            placements.append(Placement(session, agent_ids))
            charge(accounts, shape)
            shares.charge(session, shape.fractions)
        return self._answer(placements, waiting)

    def _keep_room(self, session: PendingSession, shape: Shape) -> None:
        """Keep room for `session`, which found none, where it will find it first; if nobody knows when that will be, only
        once it has waited long."""
        has_waited = self._has_waited(session)
        if not shape.may_keep or (shape.has_no_room and not has_waited):
            return
        prospect = soonest(self._machines, self._layout, shape, self._now, known_only=not has_waited)
        if prospect is not None:
            agent_ids = self._machines.keep(shape, prospect.ordinals, prospect.until)
            self._reservations.append(Reservation(session.id, agent_ids, prospect.until))
        shape.may_keep = prospect is None and not has_waited

    def _has_waited(self, session: PendingSession) -> bool:
        """As long as the group is patient."""
        return self._now - session.enqueued_at >= self._snapshot.rules.patience

    def _answer(self, placements: list[Placement], waiting: list[tuple[PendingSession, Shape]]) -> Plan:
        snapshot = self._snapshot
        diagnosis = Diagnosis(snapshot, self._machines, self._layout, self._allowances)
        return Plan(
            group_id=snapshot.group_id,
            group_name=snapshot.group_name,
            epoch=snapshot.epoch,
            planned_at=self._now,
            placements=tuple(placements),
            deferrals=tuple(
                diagnosis.of(session, shape, position)
                for position, (session, shape) in enumerate(waiting, start=1)
            ),
            reservations=tuple(self._reservations),
        )


def _slot_names(snapshot: Snapshot) -> set[str]:
    names: set[str] = set()
    for capacity in {id(agent.capacity): agent.capacity for agent in snapshot.agents}.values():
        names.update(capacity)
    for needs in {id(session.needs): session.needs for session in snapshot.pending}.values():
        names.update(needs.total)
    return names
