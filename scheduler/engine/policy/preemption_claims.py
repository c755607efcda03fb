"""Reserve capacity freed by preemption for the preempting sessions within their priority band."""

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from scheduler.engine.capacity.ledger import Until
from scheduler.engine.capacity.tracker import CapacityTracker
from scheduler.engine.index.agent_index import AgentIndex
from scheduler.engine.index.bin_index import restricted_to
from scheduler.engine.index.request_class import PassState, RequestClass
from scheduler.engine.snapshot import PendingSession


class PreemptionClaims:
    """Preemption claims of a pass. When a band begins, each of its claiming sessions is tried
    first; what it still waits for is closed to others until its turn.
    """

    def __init__(self, agents: AgentIndex, tracker: CapacityTracker, now: datetime) -> None:
        self._agents, self._tracker, self._now = agents, tracker, now
        self._closed: dict[int, tuple[UUID, int]] = {}  # by agent number: claiming session, and open capacity

    def place(
        self, session: PendingSession, request_class: RequestClass, until: Until
    ) -> tuple[int, ...] | None:
        """Place the session on the agent with its claim. If that fails, the agent is closed until
        `begin_turn`.
        """
        agent_number = self.claimed_agent(session, request_class)
        if agent_number is None:
            return None
        agent_ids = self._tracker.place(PassState(self._only_on(agent_number, request_class)), until)
        if agent_ids is None and agent_number not in self._closed:
            self._closed[agent_number] = session.id, self._tracker.close(agent_number)
        return agent_ids

    def begin_turn(self, session: PendingSession) -> None:
        """Begin the turn of the session: its agent is open again, and request classes without capacity may
        search again.
        """
        agent_number = next((each for each, (whose, _) in self._closed.items() if whose == session.id), None)
        if agent_number is not None:
            self._tracker.reopen(agent_number, self._closed.pop(agent_number)[1])
            for state in self._tracker.states.values():
                state.has_no_room = False

    def claimed_agent(self, session: PendingSession, request_class: RequestClass) -> int | None:
        """Return the number of the agent with its claim, if capacity may still be reserved for it
        there.
        """
        if session.preemption_claim is None or len(request_class.order) > 1:
            return None
        agent_id, until = session.preemption_claim
        agent_number = self._agents.numbers.get(agent_id)
        if agent_number is None or self._tracker.has_hold(agent_number):
            return None
        may_begin = self._tracker.may_begin(
            agent_number, request_class, max(until, self._now), session.max_runtime
        )
        return agent_number if may_begin else None

    def _only_on(self, agent_number: int, request_class: RequestClass) -> RequestClass:
        """Return the request class restricted to that agent."""
        [(request, search)] = request_class.queries
        pool, only = self._agents.pool_of[agent_number], frozenset((agent_number,))
        there = tuple([(number, restricted_to(query, only)) for number, query in search if number == pool])
        return replace(request_class, queries=((request, there),), single_query=None, preferred=None)
