"""The agents of one pass and what they still have free while the pass places kernels on them."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial

from scheduler.engine.accelerators import Share
from scheduler.engine.agent_views import Preemptible, Running
from scheduler.engine.capacity.capacity import Surroundings
from scheduler.engine.capacity.capacity_hold import End, Ended, Kept, Taken, Until
from scheduler.engine.capacity.placement_group import Allowed, Hosting
from scheduler.engine.index.agent_index import Fleet
from scheduler.engine.index.request_shape import Search, Shape
from scheduler.engine.snapshot import Needs
from scheduler.engine.values import Host


class Machines(Surroundings):
    """Counts down what the agents of a fleet have free, while a pass takes from it.

    Room can be kept: then only part of what an agent has free is open to all, and the rest to what ends in time.
    """

    def __init__(
        self, fleet: Fleet, now: datetime, companions: Mapping[str, Iterable[Host]], least_memory: int
    ) -> None:
        """`least_memory`: nobody will ask for less memory, as a vector."""
        super().__init__(fleet, now)
        self._ids_alone = fleet.ids_alone
        self._open = fleet.free[:]
        self._grids = [grid.copy(self._open, least_memory) for grid in fleet.grids]
        self._kept: dict[int, Kept] = {}  # by ordinal
        # Once all is open: what was open before, and the priority.
        self._closed: dict[int, tuple[int, int]] = {}
        self._lenders: list[int] = []  # once all is open: of which it was known until when
        self._kept_until: Until = None  # the last of them, of those that are known
        self._keeping: set[int] = set()  # pools in which room is kept for one that may run anywhere
        self._promised: set[int] = set()  # agents on which others are being ended for somebody
        self._taken: list[Taken] = []
        self._taken_ends: dict[int, list[End]] = {}  # of `_taken`, its first `_indexed` entries, by ordinal
        self._indexed = 0
        self._running_ends: dict[int, list[End]] = {}  # by ordinal, filled as they are asked for
        self._has_running_ends: bool | None = None  # None: nobody asked
        # By ordinal, and when; as they are asked for.
        self._running_ended: dict[tuple[int, datetime], Ended] = {}
        self.hosting = Hosting(companions, fleet.ordinals)

    def place(self, shape: Shape, until: Until) -> tuple[int, ...] | None:
        """Take room for every kernel of `shape`, and say on which agents (their ids); or take none."""
        # What ends in time may find room that is kept, though nobody else of its shape did.
        if shape.has_no_room and not self.keeps_beyond(until) and not self._may_end_in_time(shape, until):
            return None
        lone = shape.lone_search
        # Most sessions: there is one pool to ask, and nothing is kept that they might use.
        if lone is not None and (until is None or self._kept_until is None):
            pool, query = lone
            ordinal = self._grids[pool].take(query)
            if ordinal is None:
                return None
            if until is not None:
                self._taken.append((ordinal, shape.total, until, True))
            if self._kept and ordinal in self._kept:
                self._kept[ordinal].take(shape.total)
            return self._ids_alone[ordinal]
        ordinals = self._take_all(shape, until)
        if ordinals is None:
            self._note_failure(shape, until)
            return None
        if not shape.is_plain:
            self.hosting.note(shape, ordinals)
        ids = self._fleet.ids
        if len(shape.order) == 1:
            return self._fleet.ids_alone[ordinals[0]]
        if shape.largest_kernel is not None:
            return (ids[ordinals[0]],) * len(shape.order)
        return tuple([ids[ordinal] for _, ordinal in sorted(zip(shape.order, ordinals, strict=True))])

    def close(self, ordinal: int) -> int:
        """Let nobody find room there, before it is opened again with what this says that it had."""
        vector = self._open[ordinal]
        self._set_open(ordinal, ordinal)
        return vector

    def reopen(self, ordinal: int, vector: int) -> None:
        self._set_open(ordinal, vector)
        self._tell_again(ordinal)

    def has_room(self, shape: Shape, until: Until) -> bool:
        """Whether `shape` could be placed now on what is open to all."""
        shape.has_no_room = False
        start = len(self._taken)
        has_room = self._take_all(shape, until) is not None
        self._give_back(start)
        return has_room

    def has_room_beside(self, shape: Shape, until: Until, priority: int) -> bool:
        """The same, once all is open, if what was kept for sessions of this priority or a lower one still were."""
        closed = {ordinal: was for ordinal, (was, kept_for) in self._closed.items() if kept_for <= priority}
        opened = {ordinal: self._open[ordinal] for ordinal in closed}
        for ordinal, vector in closed.items():
            self._set_open(ordinal, vector)
        has_room = self.has_room(shape, until)
        for ordinal, vector in opened.items():
            self._set_open(ordinal, vector)
        return has_room

    def keep(
        self,
        shape: Shape,
        ordinals: list[int],
        until: Until,
        *,
        priority: int,
        released: int = 0,
        is_first: bool = True,
    ) -> tuple[int, ...]:
        """Keep room for a session of that priority and `shape` on these agents, one for each request: from now on only what will be free beside it
        is open to all, and all that is free now to what ends before `until`. `released`: that is given back by then, instead
        of what is known to end. `is_first`: it is the one session for which its pools keep room. The ids of the agents.

        For each request as much as for the largest, as `soonest` looks for it: with less, others would take what the next pass looks for."""
        wanted: dict[int, int] = {}
        largest = self._layout.greatest(shape.requests)
        for ordinal in ordinals:
            wanted[ordinal] = wanted.get(ordinal, 0) + largest
        for ordinal, request in wanted.items():
            free = self._open[ordinal]
            # Where nobody knows, all that is free is gathered: what small ones held and gave back is among it.
            room = free
            for ended in [released] if released else self._ended(ordinal, until):
                room = self.grown(ordinal, room, ended)
            self._kept[ordinal] = Kept(free, self._layout.less(room, request), until, priority)
            self._open_up(ordinal)
        if until is not None:
            self._kept_until = max(until, self._kept_until or until)
        self.hosting.keep(shape, ordinals)
        if is_first and shape.designated is None:
            self._keeping |= {self._fleet.pool_of[ordinal] for ordinal in ordinals}
        return tuple(self._fleet.ids[ordinal] for ordinal in ordinals)

    def promise(self, agent_id: int) -> None:
        """From now on room is kept there for nobody but whom it was promised to."""
        self._promised.add(self._fleet.ordinals.get(agent_id, -1))

    def keeps_beyond(self, until: Until) -> bool:
        """Whether room is kept for longer than something takes that ends then."""
        return until is not None and self._kept_until is not None and until <= self._kept_until

    def may_begin(self, ordinal: int, shape: Shape, at: datetime, lasts: timedelta | None) -> bool:
        """Whether no reservation of others is in the way of what begins there then."""
        latest = self.latest_start(ordinal, lasts)
        is_in_time = latest is None or at <= latest
        may_run = shape.needs.may_run_on(self._fleet.agents[ordinal])
        return is_in_time and may_run and bool(self.hosting.usable(shape, [ordinal]))

    def knows_until(self) -> bool:
        """Whether of anything that is kept it is known until when."""
        return self._kept_until is not None

    def open_all(self) -> None:
        """Keep nothing any more."""
        self._lenders = [ordinal for ordinal, kept in self._kept.items() if kept.until is not None]
        for ordinal, kept in self._kept.items():
            self._closed[ordinal] = self._open[ordinal], kept.priority
            self._set_open(ordinal, kept.free)
        self._kept.clear()
        self.hosting.open_all()

    def lent_to(self, shape: Shape) -> bool:
        """Once all is open: whether room was kept that is enough for one of its kernels, and it is known until when."""
        hosts = self.hosting.usable(shape, self._lenders)
        return any(
            self._may_host(shape, request, search, host) and self.holds(host, request, self._open[host])
            for host in hosts
            for request, search in shape.searches
        )

    def hosts(self, shape: Shape) -> list[int]:
        """The ordinals of the agents on which room could be kept for `shape`: an agent keeps room for one session, and a
        pool for one that may run anywhere in it."""
        if shape.designated is None:
            return self._not_kept(shape, shape.pools - self._keeping)
        named = [] if shape.designated < 0 or self._is_taken(shape.designated) else [shape.designated]
        return self.hosting.usable(shape, named)

    def clearable(self, shape: Shape) -> list[int]:
        """Those that others could leave for `shape`: of which nothing is kept yet."""
        return self._not_kept(shape, shape.pools) if shape.designated is None else self.hosts(shape)

    def _not_kept(self, shape: Shape, pools: set[int]) -> list[int]:
        found = self._suiting(shape.needs, self._fleet.members_of(pools))
        return self.hosting.usable(shape, [each for each in found if not self._is_taken(each)])

    def _is_taken(self, ordinal: int) -> bool:
        return ordinal in self._kept or ordinal in self._promised

    def has_ends(self) -> bool:
        """Whether it is known of anything when it will end."""
        self._index_taken()
        if self._has_running_ends is None:
            self._has_running_ends = any(agent.running for agent in self._fleet.agents)
        return bool(self._taken_ends) or self._has_running_ends

    def ends(self, ordinal: int) -> list[End]:
        """What will be given back there at a known time, the soonest first. Who should have ended by now may never."""
        self._index_taken()
        running = self._running_ends.get(ordinal)
        if running is None:
            here = self._fleet.agents[ordinal].running
            known = [(each.ends_at, self.released(ordinal, each)) for each in here]
            running = self._running_ends[ordinal] = sorted(end for end in known if end[0] > self._now)
        taken = self._taken_ends.get(ordinal)
        return sorted(running + taken) if taken else running

    def _ended(self, ordinal: int, until: Until) -> list[int]:
        """What will be given back there by then."""
        return [
            released for ends_at, released in self.ends(ordinal) if until is not None and ends_at <= until
        ]

    def ended_by(self, ordinal: int, at: datetime) -> Ended:
        """What surely has ended there by then, of what runs and of what this pass placed."""
        running = self._running_ended.get((ordinal, at))
        if running is None:
            here = self._fleet.agents[ordinal].running
            sure = [each for each in here if self._now < each.ends_at <= at and not each.is_leaving]
            shares = tuple([share for each in sure for share in each.shares])
            running = Ended(sum([self.released(ordinal, each) for each in sure]), shares)
            self._running_ended[ordinal, at] = running
        self._index_taken()
        taken = self._taken_ends.get(ordinal)
        if not taken:
            return running
        return Ended(running.held + sum([held for until, held in taken if until <= at]), running.shares)

    def released(self, ordinal: int, held: Running | Preemptible) -> int:
        """What is given back there when that ends, less devices that others share with it."""
        return self._layout.pack_room(held.slots)

    def unshared(self, ordinal: int, shares: Iterable[Share]) -> int:
        """The devices that are whole again there without these."""
        return 0

    def holds(
        self,
        ordinal: int,
        request: int,
        room: int,
        gone: Iterable[Share] = (),
        at: Until = None,
        count: int = 1,
    ) -> bool:
        """Whether `room` is enough for so many: what is free there at that time, or without those that hold these shares."""
        return self._layout.fits(request * count, room)

    def device_rooms(self, needs: Needs) -> dict[str, list[int]]:
        """By slot with devices to share: of agents that know it and could host `needs` what each has free, and of it what one device has."""
        return {}

    def keeps(self, ordinal: int) -> bool:
        """Whether part of it is kept."""
        return ordinal in self._kept

    def room(self, ordinal: int) -> int:
        """What is free there, kept or not."""
        return self._kept[ordinal].free if ordinal in self._kept else self._open[ordinal]

    def room_of(self, agent_id: int, largest: int | None) -> int:
        """Of that, what one kernel may get, of a schedulable agent by its id; `largest` as below."""
        [room] = self.rooms_for_one([self.room(self._fleet.ordinals[agent_id])], largest)
        return room

    def free_vectors(self, needs: Needs) -> list[int]:
        """What each schedulable agent that could host `needs` now has free, kept or not, in any order."""
        if needs.required_agent_id is not None:
            named = self.ordinal_of(needs.required_agent_id)
            is_host = named is not None and needs.may_run_on(self._fleet.agents[named])
            return [self.room(named)] if named is not None and is_host else []
        members, kept = self._fleet.members_of(self._fleet.pools_open_to(needs)), self._kept
        return [
            kept[ordinal].free if ordinal in kept else self._open[ordinal]
            for ordinal in self._suiting(needs, members)
        ]

    def _take_all(self, shape: Shape, until: Until) -> list[int] | None:
        """The ordinals of agents that had room for each request; or None, and then nothing is taken."""
        start = len(self._taken)
        ordinals: list[int] = []
        for request, search in shape.searches:
            if shape.is_plain:
                ordinal = self._take(shape, request, search, until)
            else:
                take = partial(self._take, shape, request, search, until)
                ordinal = self.hosting.first(take, shape, ordinals if shape.is_spread else ())
            if ordinal is None:
                self._give_back(start)
                return None
            ordinals.append(ordinal)
        return ordinals

    def _take(
        self, shape: Shape, request: int, search: Search, until: Until, allowed: Allowed | None = None
    ) -> int | None:
        """Take room for one kernel on an agent, one of those that are allowed: its ordinal."""
        if until is not None and self.keeps_beyond(until):
            # What ends in time leaves to others what is open to all, if it can.
            ordinal = self._take_kept(shape, request, search, until, allowed)
            if ordinal is not None:
                return ordinal
            if shape.has_no_room and len(shape.searches) == 1 and not shape.is_bounded:
                return None
        ordinal = shape.preferred
        if ordinal is None or not self._take_on(ordinal, request, until, allowed):
            where = self._in_time(search, until) if shape.is_bounded else search
            ordinal = None
            for pool, query in where if allowed is None else ():
                ordinal = self._grids[pool].take(query)
                if ordinal is not None:
                    break
            if allowed is not None:
                take_on = partial(self._take_on, request=request, until=until, allowed=allowed)
                ordinal = allowed.take(where, self._grids, self._fleet.pool_of, take_on)
            if ordinal is None:
                ordinal = shape.designated
                if ordinal is None or not self._take_on(ordinal, request, until, allowed):
                    return None
        self._taken.append((ordinal, request, until, True))
        if ordinal in self._kept:
            self._kept[ordinal].take(request)
        return ordinal

    def _index_taken(self) -> None:
        for ordinal, request, until, _ in self._taken[self._indexed :]:
            if until is not None:
                self._taken_ends.setdefault(ordinal, []).append((until, request))
        self._indexed = len(self._taken)

    def _in_time(self, search: Search, until: Until) -> Search:
        """Where it would end before the agents are reserved."""
        end, closes_at = self._end(until), self._fleet.closes_at
        return tuple([each for each in search if (at := closes_at[each[0]]) is None or end <= at])

    def _may_end_in_time(self, shape: Shape, until: Until) -> bool:
        """Whether it would end before all of its shape that found no room."""
        return shape.no_room_from is not None and self._end(until) < shape.no_room_from

    def _note_failure(self, shape: Shape, until: Until) -> None:
        if shape.is_bounded:
            end, before = self._end(until), shape.no_room_from if shape.has_no_room else None
            shape.no_room_from = end if before is None else min(end, before)

    def _take_on(self, ordinal: int, request: int, until: Until, allowed: Allowed | None) -> bool:
        """Take room on that agent, if it has some and is allowed; −1: there is no such agent."""
        if ordinal < 0 or not self._layout.fits(request, self._open[ordinal]):
            return False
        if not (allowed is None or ordinal in allowed):
            return False
        closes_at = self._fleet.closes_at[self._fleet.pool_of[ordinal]]
        if closes_at is not None and self._end(until) > closes_at:
            return False
        self._set_open(ordinal, self._open[ordinal] - request)
        return True

    def _take_kept(
        self, shape: Shape, request: int, search: Search, until: Until, allowed: Allowed | None
    ) -> int | None:
        """On an agent whose room is kept for longer than this would take, in the order in which it was kept."""
        for ordinal, kept in self._kept.items():
            in_time = until is not None and kept.until is not None and until <= kept.until
            if (
                in_time
                and self._may_host(shape, request, search, ordinal)
                and (allowed is None or ordinal in allowed)
                and self._layout.fits(request, kept.free)
            ):
                kept.free -= request
                self._taken.append((ordinal, request, until, False))
                self._open_up(ordinal)
                return ordinal
        return None

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
        self._grids[self._fleet.pool_of[ordinal]].set_free(ordinal, vector)
