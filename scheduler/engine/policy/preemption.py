"""Choose the sessions that are preempted for one with a higher priority."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple
from uuid import UUID

from scheduler.engine.accelerators import DeviceShare
from scheduler.engine.agent_views import PreemptibleAllocation
from scheduler.engine.capacity.tracker import CapacityTracker
from scheduler.engine.index.agent_index import AgentIndex
from scheduler.engine.index.request_class import RequestClass
from scheduler.engine.plan import Eviction
from scheduler.engine.snapshot import PendingSession, PreemptionRule

MAX_EVICTIONS = 100  # per pass; the next one continues
SECOND = timedelta(seconds=1)

Cost = tuple[int, int, int]  # highest priority of the victims, their number, seconds of work lost


class _Candidate(NamedTuple):
    """Allocation of a session on an agent. Sorts by preference as a victim: lowest priority, then
    shortest run time.
    """

    priority: int
    ran_s: int
    session_id: UUID
    held: int  # as a vector
    shares: tuple[DeviceShare, ...]


class _AgentAfterEnds(NamedTuple):
    """Agent after all ends that surely come in time, before preemption: free capacity without
    devices that others share with these sessions, and their shares.
    """

    agent_number: int
    room: int
    shares: tuple[DeviceShare, ...]
    is_grown: bool  # some allocation ends


class _VictimSet(NamedTuple):
    """Way to free capacity on one agent."""

    cost: Cost
    victims: list[_Candidate]


class Preemptor:
    """Choice of the agent with the cheapest preemption for a session without capacity.

    Victims have a lower priority and suffice together: nothing ends for a session that could not
    start then, and no victim is needless. Sessions that end by themselves before the notice is over
    count as ended and are no victims, as preempting them would gain nothing. Sessions with several
    kernels preempt nothing, nor do those that need linked devices on agents with several link groups:
    victims there might be needless.
    """

    def __init__(
        self, agents: AgentIndex, tracker: CapacityTracker, rule: PreemptionRule, now: datetime
    ) -> None:
        self._agents = agents
        self._tracker = tracker
        self._ends_at = now + rule.grace
        self._candidates = self._find_candidates(rule, now)
        self._lowest = min((each[0].priority for each in self._candidates.values()), default=None)
        self._victims: set[UUID] = set()
        # By request class, priority and, if agents will be reserved, run time: a heap.
        self._costs: dict[tuple[RequestClass, int, timedelta | None], list[tuple[Cost, int]]] = {}
        self._left = MAX_EVICTIONS

    def may_preempt_for(self, session: PendingSession, request_class: RequestClass) -> bool:
        """Return True if a search is worthwhile."""
        is_above = self._lowest is not None and session.priority > self._lowest
        return is_above and self._left > 0 and len(request_class.order) == 1

    def preempt_for(self, session: PendingSession, request_class: RequestClass) -> Eviction | None:
        """Choose victims and reserve their capacity for `session`; None if impossible. Call it only
        if `may_preempt_for`.
        """
        [(request, _)] = request_class.queries
        ways = self._costs_for(request_class, request, session)
        while ways:
            cost, negated = ways[0]
            # Sessions of its placement group may have been placed there since these were computed.
            may_run = self._tracker.occupancy.allowed_agents(request_class, [-negated])
            way = self._victim_set(-negated, request, session.priority) if may_run else None
            if way is None:
                heappop(ways)
            elif way.cost != cost:  # another preemption freed capacity there
                heapreplace(ways, (way.cost, negated))
            else:
                heappop(ways)
                return self._evict(session, request_class, -negated, way.victims)
        return None

    def count_search(self) -> None:
        """Count a full search that needed no preemption."""
        self._left -= 1

    def _find_candidates(self, rule: PreemptionRule, now: datetime) -> dict[int, list[_Candidate]]:
        """Return the possible victims by agent number."""
        released = self._tracker.released
        found = {}
        for agent_number, agent in enumerate(self._agents.views):
            candidates = [
                _Candidate(
                    each.priority,
                    (now - each.since) // SECOND,
                    each.session_id,
                    released(agent_number, each),
                    each.shares,
                )
                for each in agent.preemptible
                if each.priority <= rule.max_priority
                and now - each.since >= rule.min_runtime
                and not self._ends_anyway(each, now)
            ]
            if candidates:
                found[agent_number] = sorted(candidates)
        return found

    def _ends_anyway(self, session: PreemptibleAllocation, now: datetime) -> bool:
        """Return True if it ends by itself in time; overdue sessions may never end."""
        return session.ends_at is not None and now < session.ends_at <= self._ends_at

    def _costs_for(
        self, request_class: RequestClass, request: int, session: PendingSession
    ) -> list[tuple[Cost, int]]:
        key = request_class, session.priority, session.max_runtime if request_class.is_bounded else None
        if key not in self._costs:
            hosts = (
                agent_number
                for agent_number in self._tracker.agents_without_hold(request_class)
                if agent_number in self._candidates
                and self._agents.is_large_enough(agent_number, request)
                and not self._tracker.linked_surplus(agent_number, request_class)
                and self._tracker.may_begin(agent_number, request_class, self._ends_at, session.max_runtime)
            )
            ways = (
                (self._victim_set(agent_number, request, session.priority), agent_number)
                for agent_number in hosts
            )
            # Ties: the highest agent number, which is the smallest id.
            self._costs[key] = [(way.cost, -agent_number) for way, agent_number in ways if way is not None]
            heapify(self._costs[key])
        return self._costs[key]

    def _victim_set(self, agent_number: int, request: int, priority: int) -> _VictimSet | None:
        """Return the way to free enough on an agent; None if all victims do not suffice, none is
        needed, or the agent has a reservation.
        """
        host = self._agent_after_ends(agent_number)
        if self._tracker.has_hold(agent_number) or (host.is_grown and self._suffices(host, request, ())):
            return None
        victims: list[_Candidate] = []
        for candidate in self._candidates[agent_number]:
            if candidate.priority < priority and candidate.session_id not in self._victims:
                victims.append(candidate)
                if self._suffices(host, request, victims):
                    break
        else:
            return None
        for candidate in reversed(
            victims[:-1]
        ):  # what a later one gives back may make an earlier one needless
            others = [each for each in victims if each is not candidate]
            if self._suffices(host, request, others):
                victims = others
        cost = victims[-1].priority, len(victims), sum(each.ran_s for each in victims)
        return _VictimSet(cost, victims)

    def _agent_after_ends(self, agent_number: int) -> _AgentAfterEnds:
        tracker = self._tracker
        room = tracker.free(agent_number)
        held, shares = tracker.released_by(agent_number, self._ends_at)
        return _AgentAfterEnds(
            agent_number, tracker.add_released(agent_number, room, held) if held else room, shares, held > 0
        )

    def _suffices(self, host: _AgentAfterEnds, request: int, victims: Sequence[_Candidate]) -> bool:
        gone = _shares_of(host, victims)
        return self._tracker.fits_on(
            host.agent_number, request, self._free_without(host, victims, gone), gone
        )

    def _free_without(
        self, host: _AgentAfterEnds, victims: Sequence[_Candidate], gone: list[DeviceShare]
    ) -> int:
        """Return free capacity without the victims. `gone`: their shares and those that end by
        themselves.
        """
        agent_number, room, grown = host.agent_number, host.room, self._tracker.add_released
        for victim in victims:
            room = grown(agent_number, room, victim.held)
        return grown(agent_number, room, self._tracker.unshared(agent_number, gone))

    def _evict(
        self,
        session: PendingSession,
        request_class: RequestClass,
        agent_number: int,
        victims: list[_Candidate],
    ) -> Eviction:
        host = self._agent_after_ends(agent_number)
        room = self._free_without(host, victims, _shares_of(host, victims))
        released = room - self._tracker.free(agent_number)
        [agent_id] = self._tracker.reserve(
            request_class,
            [agent_number],
            self._ends_at,
            priority=session.priority,
            released=released,
            is_first=False,
        )
        self._victims.update(victim.session_id for victim in victims)
        self._left -= 1
        return Eviction(session.id, agent_id, tuple(each.session_id for each in victims), self._ends_at)


def _shares_of(host: _AgentAfterEnds, victims: Sequence[_Candidate]) -> list[DeviceShare]:
    return [*host.shares, *(share for victim in victims for share in victim.shares)]
