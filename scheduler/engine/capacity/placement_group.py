"""Apply placement groups: sessions that run apart from each other, or together."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduler.engine.index.bin_index import among

if TYPE_CHECKING:
    from scheduler.engine.index.bin_index import Grid
    from scheduler.engine.index.request_shape import Search, Shape
    from scheduler.engine.snapshot import Needs
from scheduler.engine.values import Host

NOWHERE: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class Allowed:
    """Filter of agents (numbers): all but some, or only a few; `hosts` restricts both further;
    None: no restriction.
    """

    without: Collection[int] = ()
    only: tuple[int, ...] | None = None
    hosts: Container[int] | None = None

    def __contains__(self, ordinal: object) -> bool:
        if ordinal in self.without or (self.only is not None and ordinal not in self.only):
            return False
        return self.hosts is None or ordinal in self.hosts

    def take(
        self,
        search: "Search",
        grids: Sequence["Grid"],
        pool_of: Sequence[int],
        take_on: Callable[[int], bool],
    ) -> int | None:
        """Take capacity on the first agent that has it: a few agents in order by `take_on`, else by
        the grids of the pools. Return its number.
        """
        queries, few = self.within(search, pool_of)
        tries = (grids[pool].take(query) for pool, query in queries)
        found = next((ordinal for ordinal in tries if ordinal is not None), None)
        return next((each for each in few if take_on(each)), None) if found is None else found

    def within(self, search: "Search", pool_of: Sequence[int]) -> tuple["Search", list[int]]:
        """Apply the filter: return the restricted search, or a list of a few agents in order."""
        if self.only is None:
            return tuple((pool, among(query, replace(self, hosts=query[-1]))) for pool, query in search), []
        hosts = {pool: query[-1] for pool, query in search}
        return (), [each for each in self.only if self._is_in(each, pool_of, hosts)]

    def _is_in(
        self, ordinal: int, pool_of: Sequence[int], hosts: Mapping[int, Container[int] | None]
    ) -> bool:
        if pool_of[ordinal] not in hosts:
            return False
        of_pool = hosts[pool_of[ordinal]]
        return ordinal in self and (of_pool is None or ordinal in of_pool)


class Hosting:
    """Occupancy of placement groups by agent, updated while a pass places sessions."""

    def __init__(self, hosts: Mapping[str, Iterable[Host]], ordinals: Mapping[int, int]) -> None:
        found = {key: {each.agent_id: each.sessions for each in places} for key, places in hosts.items()}
        # By key, then by agent number; unschedulable agents are left out.
        self._counts = {
            key: {ordinals[each]: count for each, count in counts.items() if each in ordinals}
            for key, counts in found.items()
        }
        # keys of groups with any session placed
        self._is_placed = {key for key, counts in found.items() if counts}
        self._kept: dict[str, set[int]] = {}  # agents reserved for sessions that run apart
        self._begins: dict[str, tuple[int, ...]] = {}  # agents reserved for the first session of a group
        self._waiting: dict[str, list[Shape]] = {}  # shapes that search only where their group is
        self._is_open = False  # reservations no longer count
        self._is_ignored = False

    def note(self, shape: "Shape", ordinals: Iterable[int]) -> None:
        """Record a placement of that shape."""
        companions = shape.needs.companions
        if companions is None:
            return
        counts = self._counts.setdefault(companions.key, {})
        self._is_placed.add(companions.key)
        for ordinal in set(ordinals):
            if ordinal not in counts:
                for each in self._waiting.pop(companions.key, ()):
                    each.has_no_room = False
            counts[ordinal] = counts.get(ordinal, 0) + 1

    def keep(self, shape: "Shape", ordinals: Iterable[int]) -> None:
        """Record a reservation: other sessions of its group do not take it, and do not begin
        elsewhere.
        """
        companions = shape.needs.companions
        if companions is None:
            return
        if companions.rule.is_apart:
            self._kept.setdefault(companions.key, set()).update(ordinals)
        elif companions.key not in self._is_placed:
            self._begins.setdefault(companions.key, tuple(ordinals))

    def open_all(self) -> None:
        """Ignore reservations from now on."""
        self._is_open = True

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Ignore the rules of placement groups meanwhile."""
        self._is_ignored = True
        yield
        self._is_ignored = False

    def _ways(self, shape: "Shape", used: Collection[int]) -> Iterator[Allowed]:
        """Yield filters of agents for the next kernel, in order of preference. `used`: excluded
        agents.
        """
        companions = shape.needs.companions
        if companions is None or self._is_ignored:
            yield Allowed(used)
            return
        key, rule = companions
        if rule.is_apart:
            counts = self._counts.get(key, NOWHERE) if self._is_open else self._apart_from(key)
            for most in (0,) if rule.is_strict else sorted({0, *counts.values()}):
                yield Allowed({*used, *(each for each, count in counts.items() if count > most)})
            return
        begins = () if self._is_open else self._begins.get(key, ())
        yield Allowed(used, self._fullest(key) or begins)
        if not (rule.is_strict and (begins or key in self._is_placed)):
            yield Allowed(used)
        if rule.is_strict:
            self._waiting.setdefault(key, []).append(shape)

    def first(
        self, take: Callable[[Allowed], int | None], shape: "Shape", used: Collection[int]
    ) -> int | None:
        """Return the first agent number that `take` finds among the preferred agents, or the next
        ones; excludes `used`.
        """
        for allowed in self._ways(shape, used):
            ordinal = take(allowed)
            if ordinal is not None:
                return ordinal
        return None

    def usable(self, shape: "Shape", ordinals: list[int]) -> list[int]:
        """Filter agents by a strict rule of the placement group, beside reservations."""
        companions = shape.needs.companions
        if companions is None or not companions.rule.is_strict:
            return ordinals
        key, rule = companions
        if rule.is_apart:
            counts = self._apart_from(key)
            return [each for each in ordinals if each not in counts]
        hosts = self.hosts_of(key) if key in self._is_placed else self._begins.get(key)
        return ordinals if hosts is None else [each for each in ordinals if each in hosts]

    def is_in_the_way(self, needs: "Needs") -> bool:
        """Return True if a strict rule excludes agents for such needs."""
        return needs.companions is not None and needs.companions.rule.is_strict

    def hosts_of(self, key: str) -> Collection[int]:
        """Return the numbers of the schedulable agents that host the group."""
        return self._counts.get(key, NOWHERE).keys()

    def _apart_from(self, key: str) -> Mapping[int, int]:
        counts = self._counts.get(key, NOWHERE)
        kept = self._kept.get(key)
        return {**dict.fromkeys(kept, 1), **counts} if kept else counts

    def _fullest(self, key: str) -> tuple[int, ...]:
        """Return host agents, most sessions of the group first, then the smallest id."""
        counts = self._counts.get(key, NOWHERE)
        return tuple(sorted(counts, key=lambda ordinal: (-counts[ordinal], -ordinal)))
