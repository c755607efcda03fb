"""Reserve capacity freed by preemption for the preempting sessions within their priority band."""

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from scheduler.engine.capacity.capacity_hold import Until
from scheduler.engine.capacity.tracker import Machines
from scheduler.engine.index.agent_index import Fleet
from scheduler.engine.index.bin_index import among
from scheduler.engine.index.request_shape import Shape
from scheduler.engine.snapshot import PendingSession


class Promises:
    """Preemption claims of a pass. When a band begins, each of its claiming sessions is tried
    first; what it still waits for is closed to others until its turn.
    """

    def __init__(self, fleet: Fleet, machines: Machines, now: datetime) -> None:
        self._fleet, self._machines, self._now = fleet, machines, now
        self._closed: dict[int, tuple[UUID, int]] = {}  # by agent number: claiming session, and open capacity

    def place(self, session: PendingSession, shape: Shape, until: Until) -> tuple[int, ...] | None:
        """Place the session on the agent with its claim. If that fails, the agent is closed until
        `come_to`.
        """
        ordinal = self.agent_for(session, shape)
        if ordinal is None:
            return None
        agent_ids = self._machines.place(self._only_on(ordinal, shape), until)
        if agent_ids is None and ordinal not in self._closed:
            self._closed[ordinal] = session.id, self._machines.close(ordinal)
        return agent_ids

    def come_to(self, session: PendingSession) -> None:
        """Begin the turn of the session: its agent is open again, and shapes without capacity may
        search again.
        """
        ordinal = next((each for each, (whose, _) in self._closed.items() if whose == session.id), None)
        if ordinal is not None:
            self._machines.reopen(ordinal, self._closed.pop(ordinal)[1])
            for shape in self._fleet.shapes.values():
                shape.has_no_room = False

    def agent_for(self, session: PendingSession, shape: Shape) -> int | None:
        """Return the number of the agent with its claim, if capacity may still be reserved for it
        there.
        """
        if session.promised is None or len(shape.order) > 1:
            return None
        agent_id, until = session.promised
        ordinal = self._machines.ordinal_of(agent_id)
        if ordinal is None or self._machines.keeps(ordinal):
            return None
        may_begin = self._machines.may_begin(ordinal, shape, max(until, self._now), session.lasts)
        return ordinal if may_begin else None

    def _only_on(self, ordinal: int, shape: Shape) -> Shape:
        """Return the shape restricted to that agent."""
        [(request, search)] = shape.searches
        pool, only = self._fleet.pool_of[ordinal], frozenset((ordinal,))
        there = tuple([(number, among(query, only)) for number, query in search if number == pool])
        return replace(
            shape, searches=((request, there),), lone_search=None, preferred=None, has_no_room=False
        )
