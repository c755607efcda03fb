"""The agents of one pass and what they still have free while the pass places kernels on them."""

from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from common.slots import CPU, MEM, ResourceSlots
from scheduler.engine.grid import EmptiestFirst, Grid
from scheduler.engine.model import AgentView, Needs, Snapshot, Strategy
from scheduler.engine.shapes import Search, Shape
from scheduler.engine.shares import Shares
from scheduler.engine.vectors import Layout

Until = datetime | None  # at the latest; None: nobody knows
End = tuple[datetime, int]  # when something ends, and how much it gives back
Taken = tuple[
    int, int, Until, bool
]  # on which agent (ordinal), how much, until when, whether of what is open to all


@dataclass(slots=True)
class Kept:
    """An agent of which part is kept: what is free at all, what will be free beside the session for which it is kept, and
    when that will start. Open to all is the lesser of the two."""

    free: int
    beside: int
    until: Until


class Machines:
    """Schedulable agents, pooled by architecture and kinds of slot, with a grid for each pool.

    Room can be kept: then only part of what an agent has free is open to all, and the rest to what ends in time.
    """

    def __init__(self, snapshot: Snapshot, layout: Layout, shares: Shares, now: datetime) -> None:
        schedulable = (agent for agent in snapshot.agents if agent.is_schedulable)
        # A grid takes the highest ordinal first; so that is the smallest id.
        self._agents = sorted(schedulable, key=lambda agent: agent.id, reverse=True)
        self._ids = [agent.id for agent in self._agents]
        self._ordinals = {agent.id: ordinal for ordinal, agent in enumerate(self._agents)}
        self._open = [layout.pack_room(agent.free, ordinal) for ordinal, agent in enumerate(self._agents)]
        self._kept: dict[int, Kept] = {}  # by ordinal
        self._kept_until: Until = None  # the last of them, of those that are known
        self._keeping: set[Grid] = set()  # where room is kept for one that may run anywhere
        self._taken: list[Taken] = []  # in this pass
        self._taken_ends: dict[int, list[End]] = {}  # of `_taken`, its first `_indexed` entries, by ordinal
        self._indexed = 0
        self._running_ends: dict[int, list[End]] = {}  # by ordinal, filled as they are asked for
        self._capacities: dict[int, int] = {}  # by object: agents of one kind may share it
        self._now = now
        self._layout = layout
        self._shares = shares
        self._grid_of: list[Grid] = []
        self._pools = self._filled_pools(snapshot.rules.strategy)
        self._shapes: dict[Needs, Shape] = {}
        self._shape_by_object: dict[int, Shape] = {}

    def shape_of(self, needs: Needs) -> Shape:
        shape = self._shape_by_object.get(id(needs))
        if shape is None:
            shape = self._shapes.get(needs) or self._compile(needs)
            self._shape_by_object[id(needs)] = self._shapes[needs] = shape
        return shape

    def place(self, shape: Shape, until: Until) -> tuple[int, ...] | None:
        """Take room for every kernel of `shape`, and say on which agents (their ids); or take none."""
        start = len(self._taken)
        if not self._take_all(shape, until):
            return None
        if start + 1 == len(self._taken):
            return (self._ids[self._taken[start][0]],)
        ids = [self._ids[ordinal] for ordinal, _, _, _ in self._taken[start:]]
        return tuple(agent_id for _, agent_id in sorted(zip(shape.order, ids, strict=True)))

    def has_room(self, shape: Shape) -> bool:
        """Whether `shape` could be placed now on what is open to all."""
        shape.has_no_room = False
        start = len(self._taken)
        has_room = self._take_all(shape, None)
        self._give_back(start)
        return has_room

    def keep(self, shape: Shape, ordinals: list[int], until: Until) -> tuple[int, ...]:
        """Keep room for `shape` on these agents, one for each request: from now on only what will be free beside it
        is open to all, and all that is free now to what ends before `until`. The ids of the agents."""
        wanted: dict[int, int] = {}
        for ordinal, (request, _) in zip(ordinals, shape.searches, strict=True):
            wanted[ordinal] = wanted.get(ordinal, 0) + request
        for ordinal, request in wanted.items():
            free = self._open[ordinal]
            # Where nobody knows, all that is free is gathered: what small ones held and gave back is among it.
            room = free
            for ends_at, released in self.ends(ordinal):
                if until is not None and ends_at <= until:
                    room = self.grown(ordinal, room, released)
            self._kept[ordinal] = Kept(free, self._layout.less(room, request), until)
            self._open_up(ordinal)
        if until is not None:
            self._kept_until = max(until, self._kept_until or until)
        if shape.designated is None:
            self._keeping |= {self._grid_of[ordinal] for ordinal in ordinals}
        return tuple(self._agents[ordinal].id for ordinal in ordinals)

    def keeps_beyond(self, until: Until) -> bool:
        """Whether room is kept for longer than something takes that ends then."""
        return until is not None and self._kept_until is not None and until <= self._kept_until

    def knows_until(self) -> bool:
        """Whether of anything that is kept it is known until when."""
        return self._kept_until is not None

    def open_all(self) -> None:
        """Keep nothing any more."""
        for ordinal, kept in self._kept.items():
            self._set_open(ordinal, kept.free)
        self._kept.clear()

    def hosts(self, shape: Shape) -> list[int]:
        """The ordinals of the agents on which room could be kept for `shape`: an agent keeps room for one session, and a
        pool for one that may run anywhere in it."""
        if shape.designated is not None:
            return [shape.designated] if shape.designated >= 0 and shape.designated not in self._kept else []
        grids = shape.grids - self._keeping
        hosts = (ordinal for ordinal, grid in enumerate(self._grid_of) if grid in grids)
        return [ordinal for ordinal in hosts if ordinal not in self._kept]

    def has_ends(self) -> bool:
        """Whether it is known of anything when it will end."""
        self._index_taken()
        return bool(self._taken_ends) or any(agent.running for agent in self._agents)

    def ends(self, ordinal: int) -> list[End]:
        """What will be given back there at a known time, the soonest first. Who should have ended by now may never."""
        self._index_taken()
        running = self._running_ends.get(ordinal)
        if running is None:
            pack = self._layout.pack_room
            known = [(ends_at, pack(slots)) for slots, ends_at in self._agents[ordinal].running]
            running = self._running_ends[ordinal] = sorted(end for end in known if end[0] > self._now)
        taken = self._taken_ends.get(ordinal)
        return sorted(running + taken) if taken else running

    def room(self, ordinal: int) -> int:
        """What is free there, kept or not."""
        return self._kept[ordinal].free if ordinal in self._kept else self._open[ordinal]

    def capacity(self, ordinal: int) -> int:
        capacity = self._agents[ordinal].capacity
        if id(capacity) not in self._capacities:
            self._capacities[id(capacity)] = self._layout.pack_room(capacity)
        return self._capacities[id(capacity)] + ordinal

    def grown(self, ordinal: int, room: int, released: int) -> int:
        """`room` after a release, never beyond the capacity of the agent."""
        missing = self._layout.less(self.capacity(ordinal), room - ordinal) - ordinal
        return room + self._layout.lesser(released, missing)

    def free_vectors(self, needs: Needs) -> list[int]:
        """What each schedulable agent that could host `needs` has free now, kept or not, by agent id."""
        numbered = reversed(list(enumerate(self._agents)))
        return [self.room(ordinal) for ordinal, agent in numbered if needs.may_run_on(agent)]

    def _take_all(self, shape: Shape, until: Until) -> bool:
        """Whether there was room for all; it is taken then, and nothing else."""
        start = len(self._taken)
        # What ends in time leaves to others what is open to all, if it can.
        may_use_kept = self.keeps_beyond(until)
        for request, search in shape.searches:
            if may_use_kept and self._take_kept(shape, request, until):
                continue
            if shape.has_no_room and len(shape.searches) == 1:
                return False
            for grid, query in search:
                ordinal = grid.take(query)
                if ordinal is not None:
                    break
            else:
                ordinal = self._take_designated(shape, request)
                if ordinal is None:
                    self._give_back(start)
                    return False
            self._taken.append((ordinal, request, until, True))
            if ordinal in self._kept:
                self._kept[ordinal].free -= request
                self._kept[ordinal].beside -= request
        return True

    def _index_taken(self) -> None:
        for where, request, until, _ in islice(self._taken, self._indexed, None):
            if until is not None:
                self._taken_ends.setdefault(where, []).append((until, request))
        self._indexed = len(self._taken)

    def _take_designated(self, shape: Shape, request: int) -> int | None:
        ordinal = shape.designated
        if ordinal is None or ordinal < 0 or not self._layout.fits(request, self._open[ordinal]):
            return None
        self._set_open(ordinal, self._open[ordinal] - request)
        return ordinal

    def _take_kept(self, shape: Shape, request: int, until: Until) -> bool:
        """On an agent whose room is kept for longer than this would take, in the order in which it was kept."""
        for ordinal, kept in self._kept.items():
            in_time = until is not None and kept.until is not None and until <= kept.until
            may_run = shape.needs.may_run_on(self._agents[ordinal])
            if in_time and may_run and self._layout.fits(request, kept.free):
                kept.free -= request
                self._taken.append((ordinal, request, until, False))
                self._open_up(ordinal)
                return True
        return False

    def _give_back(self, start: int) -> None:
        """Whatever was taken since."""
        while len(self._taken) > start:
            ordinal, request, _, was_open = self._taken.pop()
            kept = self._kept.get(ordinal)
            if kept is None:
                self._set_open(ordinal, self._open[ordinal] + request)
                continue
            kept.free += request
            if was_open:
                kept.beside += request
            self._open_up(ordinal)

    def _open_up(self, ordinal: int) -> None:
        """Open to all what is free there and not kept."""
        kept = self._kept[ordinal]
        self._set_open(ordinal, self._layout.lesser(kept.free, kept.beside))

    def _set_open(self, ordinal: int, vector: int) -> None:
        self._grid_of[ordinal].set_free(ordinal, vector)

    def _compile(self, needs: Needs) -> Shape:
        packed = [self._layout.pack_request(slots) for slots in needs.kernels]
        order = tuple(sorted(range(len(packed)), key=packed.__getitem__, reverse=True))
        designated = None
        if needs.designated_agent_id is not None:
            designated = self._ordinals.get(needs.designated_agent_id, -1)
            if designated >= 0 and not needs.may_run_on(self._agents[designated]):
                designated = -1
        total = needs.total
        return Shape(
            needs=needs,
            order=order,
            searches=tuple(
                (packed[index], self._search(needs, needs.kernels[index], packed[index])) for index in order
            ),
            designated=designated,
            total=self._layout.pack_request(total),
            fractions=self._shares.fractions(total),
        )

    def _search(self, needs: Needs, slots: ResourceSlots, request: int) -> Search:
        if needs.designated_agent_id is not None:
            return ()
        return tuple(
            (grid, grid.query(request))
            for (architecture, kinds), grid in self._pools.items()
            if architecture == needs.architecture and all(name in kinds for name in slots)
        )

    def _filled_pools(self, strategy: Strategy) -> dict[tuple[str, tuple[str, ...]], Grid]:
        """A grid for each architecture and kinds of slot; those with the fewest kinds come first, because a session
        without devices must not spend the CPU of a machine with them while a plain one has room."""
        keys = [(agent.architecture, _kinds_of(agent)) for agent in self._agents]
        pools: dict[tuple[str, tuple[str, ...]], Grid] = {}
        kind = Grid if strategy is Strategy.CONCENTRATED else EmptiestFirst
        for key in sorted(set(keys), key=lambda key: (len(key[1]), key)):
            devices = [name for name in key[1] if name not in (CPU, MEM)]
            pools[key] = kind(self._open, self._layout, devices[0] if devices else None)
        self._grid_of = [pools[key] for key in keys]
        for grid in pools.values():
            grid.fill(vector for vector, own in zip(self._open, self._grid_of, strict=True) if own is grid)
        return pools


def _kinds_of(agent: AgentView) -> tuple[str, ...]:
    return tuple([name for name, _ in agent.capacity.items()])
