"""The agents of one pass and what they still have free while the pass places kernels on them."""

from bisect import bisect_left, insort

from scheduler.engine.model import PendingSession, Snapshot, Strategy
from scheduler.engine.vectors import Layout, ordinal_of

Pool = list[int]  # vectors of free slots, ascending


class Machines:
    """Schedulable agents, pooled by architecture and kinds of slot, each pool ordered by what is free.

    An agent with room for a request has a vector at least as large as a number, so a search begins at the
    request's place in the pool: upwards the first that fits is the fullest, downwards the emptiest.
    """

    def __init__(self, snapshot: Snapshot, layout: Layout) -> None:
        self._agents = sorted((a for a in snapshot.agents if a.is_schedulable), key=lambda agent: agent.id)
        self._ordinals = {agent.id: ordinal for ordinal, agent in enumerate(self._agents)}
        self._free = [layout.pack_room(agent.free, ordinal) for ordinal, agent in enumerate(self._agents)]
        self._fits = layout.fits
        self._is_concentrated = snapshot.strategy is Strategy.CONCENTRATED
        self._pool_of: dict[int, Pool] = {}
        self._pools_by_architecture: dict[str, list[Pool]] = {}
        self._fill_pools()

    def place(self, session: PendingSession, requests: tuple[int, ...]) -> tuple[int, ...] | None:
        """Take room for every request, in this order, and say on which agents (their ids); or take none."""
        taken: list[tuple[int, int]] = []
        for request in requests:
            ordinal = self._find(session, request)
            if ordinal is None:
                for held_by, held in reversed(taken):
                    self._set_free(held_by, self._free[held_by] + held)
                return None
            self._set_free(ordinal, self._free[ordinal] - request)
            taken.append((ordinal, request))
        return tuple(self._agents[ordinal].id for ordinal, _ in taken)

    def free_vectors(self, session: PendingSession) -> list[int]:
        """What each schedulable agent that could host `session` has free now, by agent id."""
        pairs = zip(self._agents, self._free, strict=True)
        return [free for agent, free in pairs if session.may_run_on(agent)]

    def _find(self, session: PendingSession, request: int) -> int | None:
        if session.designated_agent_id is not None:
            ordinal = self._ordinals.get(session.designated_agent_id)
            if ordinal is None or not session.may_run_on(self._agents[ordinal]):
                return None
            return ordinal if self._fits(request, self._free[ordinal]) else None
        for pool in self._pools_by_architecture.get(session.architecture, ()):
            span = range(bisect_left(pool, request), len(pool))
            for index in span if self._is_concentrated else reversed(span):
                if self._fits(request, pool[index]):
                    return ordinal_of(pool[index])
        return None

    def _set_free(self, ordinal: int, vector: int) -> None:
        pool = self._pool_of[ordinal]
        del pool[bisect_left(pool, self._free[ordinal])]
        insort(pool, vector)
        self._free[ordinal] = vector

    def _fill_pools(self) -> None:
        """One pool per architecture and kinds of slot; those with the fewest kinds come first, because a
        session without devices must not spend the CPU of a machine with them while a plain one has room."""
        kinds = [tuple(agent.capacity) for agent in self._agents]
        pools: dict[str, dict[tuple[str, ...], Pool]] = {}
        for ordinal in sorted(range(len(kinds)), key=lambda o: (len(kinds[o]), kinds[o], self._free[o])):
            siblings = pools.setdefault(self._agents[ordinal].architecture, {})
            pool = siblings.setdefault(kinds[ordinal], [])
            pool.append(self._free[ordinal])
            self._pool_of[ordinal] = pool
        self._pools_by_architecture = {name: list(siblings.values()) for name, siblings in pools.items()}
