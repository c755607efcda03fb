"""Reserve capacity freed by preemption for the preempting sessions within their priority band."""

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from scheduler.engine.capacity.capacity_hold import Until
from scheduler.engine.capacity.tracker import CapacityTracker
from scheduler.engine.index.agent_index import AgentIndex
from scheduler.engine.index.bin_index import restricted_to
from scheduler.engine.index.request_shape import RequestClass
from scheduler.engine.snapshot import PendingSession


class PreemptionClaims:
    """Preemption claims of a pass. When a band begins, each of its claiming sessions is tried
    first; what it still waits for is closed to others until its turn.
    """

    def __init__(self, fleet: AgentIndex, machines: CapacityTracker, now: datetime) -> None:
        self._agents, self._tracker, self._now = fleet, machines, now
        self._closed: dict[int, tuple[UUID, int]] = {}  # by agent number: claiming session, and open capacity

    def place(self, session: PendingSession, shape: RequestClass, until: Until) -> tuple[int, ...] | None:
        """Place the session on the agent with its claim. If that fails, the agent is closed until
        `come_to`.
        """
        ordinal = self.claimed_agent(session, shape)
        if ordinal is None:
            return None
        agent_ids = self._tracker.place(self._only_on(ordinal, shape), until)
        if agent_ids is None and ordinal not in self._closed:
            self._closed[ordinal] = session.id, self._tracker.close(ordinal)
        return agent_ids

    def begin_turn(self, session: PendingSession) -> None:
        """Begin the turn of the session: its agent is open again, and shapes without capacity may
        search again.
        """
        ordinal = next((each for each, (whose, _) in self._closed.items() if whose == session.id), None)
        if ordinal is not None:
            self._tracker.reopen(ordinal, self._closed.pop(ordinal)[1])
            for shape in self._agents.classes.values():
                shape.has_no_room = False

    def claimed_agent(self, session: PendingSession, shape: RequestClass) -> int | None:
        """Return the number of the agent with its claim, if capacity may still be reserved for it
        there.
        """
        if session.preemption_claim is None or len(shape.order) > 1:
            return None
        agent_id, until = session.preemption_claim
        ordinal = self._tracker.agent_number(agent_id)
        if ordinal is None or self._tracker.has_hold(ordinal):
            return None
        may_begin = self._tracker.may_begin(ordinal, shape, max(until, self._now), session.max_runtime)
        return ordinal if may_begin else None

    def _only_on(self, ordinal: int, shape: RequestClass) -> RequestClass:
        """Return the shape restricted to that agent."""
        [(request, search)] = shape.queries
        pool, only = self._agents.pool_of[ordinal], frozenset((ordinal,))
        there = tuple([(number, restricted_to(query, only)) for number, query in search if number == pool])
        return replace(
            shape, queries=((request, there),), single_query=None, preferred=None, has_no_room=False
        )
