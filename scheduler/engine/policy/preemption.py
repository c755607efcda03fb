"""Whom sessions of a lower priority make room for."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple
from uuid import UUID

from scheduler.engine.accelerators import Share
from scheduler.engine.agent_views import Preemptible
from scheduler.engine.capacity.tracker import Machines
from scheduler.engine.index.agent_index import Fleet
from scheduler.engine.index.request_shape import Shape
from scheduler.engine.plan import Eviction
from scheduler.engine.snapshot import PendingSession, Preemption

MOST_EVICTIONS = 100  # in one pass; the next goes on
SECOND = timedelta(seconds=1)

Cost = tuple[int, int, int]  # the highest priority among the victims, how many they are, seconds of work lost


class _Candidate(NamedTuple):
    """What a session holds on an agent. The smallest is the first to go: the lowest priority, of these the one that ran the
    shortest."""

    priority: int
    ran_s: int
    session_id: UUID
    held: int  # as a vector
    shares: tuple[Share, ...]


class _Host(NamedTuple):
    """An agent when all that surely ends in time has ended, before anybody is made to leave it: what it has free less
    devices that others share with these, and their shares."""

    ordinal: int
    room: int
    shares: tuple[Share, ...]
    is_grown: bool  # something ends


class _Way(NamedTuple):
    """To make room on one agent."""

    cost: Cost
    victims: list[_Candidate]


class Preemptor:
    """Finds, for a session that found no room, the agent on which the least has to end for it.

    Victims have a lower priority than it, and they suffice: nothing ends for a session that could not start then. None of
    them is spared by ending the others alone. What ends by itself until they are gone counts as gone, and is no victim: to
    end it early would win nothing. Sessions of several kernels make nobody leave.
    """

    def __init__(self, fleet: Fleet, machines: Machines, rule: Preemption, now: datetime) -> None:
        self._fleet = fleet
        self._machines = machines
        self._ends_at = now + rule.grace
        self._candidates = self._find_candidates(rule, now)
        self._lowest = min((each[0].priority for each in self._candidates.values()), default=None)
        self._leaving: set[UUID] = set()
        # By shape, priority and, where agents will be reserved, how long it lasts: a heap.
        self._ways: dict[tuple[int, int, timedelta | None], list[tuple[Cost, int]]] = {}
        self._left = MOST_EVICTIONS

    def may_evict_for(self, session: PendingSession, shape: Shape) -> bool:
        """Whether it is worth a look."""
        is_above = self._lowest is not None and session.priority > self._lowest
        return is_above and self._left > 0 and len(shape.order) == 1

    def evict_for(self, session: PendingSession, shape: Shape) -> Eviction | None:
        """Keeps the room that the victims will leave for `session`. Call it where `may_evict_for`."""
        [(request, _)] = shape.searches
        ways = self._ways_of(shape, request, session)
        while ways:
            cost, negated = ways[0]
            # Others of its placement group may have come there since these were found.
            may_run = self._machines.hosting.usable(shape, [-negated])
            way = self._way(-negated, request, session.priority) if may_run else None
            if way is None:
                heappop(ways)
            elif way.cost != cost:  # somebody else made room there
                heapreplace(ways, (way.cost, negated))
            else:
                heappop(ways)
                return self._evict(session, shape, -negated, way.victims)
        return None

    def note_look(self) -> None:
        """All agents were looked at, and nobody had to end."""
        self._left -= 1

    def _find_candidates(self, rule: Preemption, now: datetime) -> dict[int, list[_Candidate]]:
        """By ordinal, of those agents that have some."""
        released = self._machines.released
        found = {}
        for ordinal, agent in enumerate(self._fleet.agents):
            candidates = [
                _Candidate(
                    each.priority,
                    (now - each.since) // SECOND,
                    each.session_id,
                    released(ordinal, each),
                    each.shares,
                )
                for each in agent.preemptible
                if each.priority <= rule.up_to
                and now - each.since >= rule.after
                and not self._ends_anyway(each, now)
            ]
            if candidates:
                found[ordinal] = sorted(candidates)
        return found

    def _ends_anyway(self, session: Preemptible, now: datetime) -> bool:
        """By itself, and in time. Who should have ended by now may never."""
        return session.ends_at is not None and now < session.ends_at <= self._ends_at

    def _ways_of(self, shape: Shape, request: int, session: PendingSession) -> list[tuple[Cost, int]]:
        key = id(shape), session.priority, session.lasts if shape.is_bounded else None
        if key not in self._ways:
            hosts = (
                ordinal
                for ordinal in self._machines.clearable(shape)
                if ordinal in self._candidates
                and self._machines.is_large_enough(ordinal, request)
                and self._machines.may_begin(ordinal, shape, self._ends_at, session.lasts)
            )
            ways = ((self._way(ordinal, request, session.priority), ordinal) for ordinal in hosts)
            # Of equal ones the highest ordinal, which is the smallest id.
            self._ways[key] = [(way.cost, -ordinal) for way, ordinal in ways if way is not None]
            heapify(self._ways[key])
        return self._ways[key]

    def _way(self, ordinal: int, request: int, priority: int) -> _Way | None:
        """None if there is not room enough even without all that may go, or if there will be with all of them."""
        host = self._host(ordinal)
        if self._machines.keeps(ordinal) or (host.is_grown and self._suffices(host, request, ())):
            return None
        victims: list[_Candidate] = []
        for candidate in self._candidates[ordinal]:
            if candidate.priority < priority and candidate.session_id not in self._leaving:
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
        return _Way(cost, victims)

    def _host(self, ordinal: int) -> _Host:
        machines = self._machines
        room = machines.room(ordinal)
        held, shares = machines.ended_by(ordinal, self._ends_at)
        return _Host(ordinal, machines.grown(ordinal, room, held) if held else room, shares, held > 0)

    def _suffices(self, host: _Host, request: int, victims: Sequence[_Candidate]) -> bool:
        gone = _shares_of(host, victims)
        return self._machines.holds(host.ordinal, request, self._room_without(host, victims, gone), gone)

    def _room_without(self, host: _Host, victims: Sequence[_Candidate], gone: list[Share]) -> int:
        """`gone`: their shares, and those of what ends by itself."""
        ordinal, room, grown = host.ordinal, host.room, self._machines.grown
        for victim in victims:
            room = grown(ordinal, room, victim.held)
        return grown(ordinal, room, self._machines.unshared(ordinal, gone))

    def _evict(
        self, session: PendingSession, shape: Shape, ordinal: int, victims: list[_Candidate]
    ) -> Eviction:
        host = self._host(ordinal)
        room = self._room_without(host, victims, _shares_of(host, victims))
        released = room - self._machines.room(ordinal)
        [agent_id] = self._machines.keep(
            shape, [ordinal], self._ends_at, priority=session.priority, released=released, is_first=False
        )
        self._leaving.update(victim.session_id for victim in victims)
        self._left -= 1
        return Eviction(session.id, agent_id, tuple(each.session_id for each in victims), self._ends_at)


def _shares_of(host: _Host, victims: Sequence[_Candidate]) -> list[Share]:
    return [*host.shares, *(share for victim in victims for share in victim.shares)]
