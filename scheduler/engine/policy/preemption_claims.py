"""Sessions for which others are being ended: what these leave is theirs, whoever of their band is ahead of them."""

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
    """Of one pass. When a band begins each of its promised sessions is asked for; who is still waited for then gets nothing taken away
    before its turn."""

    def __init__(self, fleet: Fleet, machines: Machines, now: datetime) -> None:
        self._fleet, self._machines, self._now = fleet, machines, now
        self._closed: dict[int, tuple[UUID, int]] = {}  # by ordinal: for whom, and what is free there

    def place(self, session: PendingSession, shape: Shape, until: Until) -> tuple[int, ...] | None:
        """Take room for it on the agent that others left for it. If there is none yet nobody finds any there before `come_to`."""
        ordinal = self.agent_for(session, shape)
        if ordinal is None:
            return None
        agent_ids = self._machines.place(self._only_on(ordinal, shape), until)
        if agent_ids is None and ordinal not in self._closed:
            self._closed[ordinal] = session.id, self._machines.close(ordinal)
        return agent_ids

    def come_to(self, session: PendingSession) -> None:
        """It is its turn: it may look everywhere, and whoever found no room meanwhile may look again."""
        ordinal = next((each for each, (whose, _) in self._closed.items() if whose == session.id), None)
        if ordinal is not None:
            self._machines.reopen(ordinal, self._closed.pop(ordinal)[1])
            for shape in self._fleet.shapes.values():
                shape.has_no_room = False

    def agent_for(self, session: PendingSession, shape: Shape) -> int | None:
        """The ordinal of the agent that others leave for it, if room may be kept for it there still."""
        if session.promised is None or len(shape.order) > 1:
            return None
        agent_id, until = session.promised
        ordinal = self._machines.ordinal_of(agent_id)
        if ordinal is None or self._machines.keeps(ordinal):
            return None
        may_begin = self._machines.may_begin(ordinal, shape, max(until, self._now), session.lasts)
        return ordinal if may_begin else None

    def _only_on(self, ordinal: int, shape: Shape) -> Shape:
        """The same, to be placed there or nowhere."""
        [(request, search)] = shape.searches
        pool, only = self._fleet.pool_of[ordinal], frozenset((ordinal,))
        there = tuple([(number, among(query, only)) for number, query in search if number == pool])
        return replace(
            shape, searches=((request, there),), lone_search=None, preferred=None, has_no_room=False
        )
