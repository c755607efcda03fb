"""Apply placement groups: sessions that run apart from each other, or together."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduler.engine.index.bin_index import restricted_to

if TYPE_CHECKING:
    from scheduler.engine.index.bin_index import BinIndex
    from scheduler.engine.index.request_shape import CandidateQueries, RequestClass
    from scheduler.engine.snapshot import Requirements
from scheduler.engine.values import GroupHost

NO_HOSTS: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class AgentFilter:
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
        search: "CandidateQueries",
        grids: Sequence["BinIndex"],
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

    def within(
        self, search: "CandidateQueries", pool_of: Sequence[int]
    ) -> tuple["CandidateQueries", list[int]]:
        """Apply the filter: return the restricted search, or a list of a few agents in order."""
        if self.only is None:
            return tuple(
                (pool, restricted_to(query, replace(self, hosts=query[-1]))) for pool, query in search
            ), []
        hosts = {pool: query[-1] for pool, query in search}
        return (), [each for each in self.only if self._is_in(each, pool_of, hosts)]

    def _is_in(
        self, ordinal: int, pool_of: Sequence[int], hosts: Mapping[int, Container[int] | None]
    ) -> bool:
        if pool_of[ordinal] not in hosts:
            return False
        of_pool = hosts[pool_of[ordinal]]
        return ordinal in self and (of_pool is None or ordinal in of_pool)


class GroupOccupancy:
    """Occupancy of placement groups by agent, updated while a pass places sessions."""

    def __init__(self, hosts: Mapping[str, Iterable[GroupHost]], ordinals: Mapping[int, int]) -> None:
        found = {key: {each.agent_id: each.sessions for each in places} for key, places in hosts.items()}
        # By key, then by agent number; unschedulable agents are left out.
        self._counts = {
            key: {ordinals[each]: count for each, count in counts.items() if each in ordinals}
            for key, counts in found.items()
        }
        # keys of groups with any session placed
        self._is_placed = {key for key, counts in found.items() if counts}
        self._reserved: dict[str, set[int]] = {}  # agents reserved for sessions that run apart
        self._reserved_for_first: dict[
            str, tuple[int, ...]
        ] = {}  # agents reserved for the first session of a group
        self._searched_hosts_only: dict[
            str, list[RequestClass]
        ] = {}  # shapes that search only where their group is
        self._is_open = False  # reservations no longer count
        self._is_ignored = False

    def record_placement(self, shape: "RequestClass", ordinals: Iterable[int]) -> None:
        """Record a placement of that shape."""
        companions = shape.requirements.placement_group
        if companions is None:
            return
        counts = self._counts.setdefault(companions.key, {})
        self._is_placed.add(companions.key)
        for ordinal in set(ordinals):
            if ordinal not in counts:
                for each in self._searched_hosts_only.pop(companions.key, ()):
                    each.has_no_room = False
            counts[ordinal] = counts.get(ordinal, 0) + 1

    def record_reservation(self, shape: "RequestClass", ordinals: Iterable[int]) -> None:
        """Record a reservation: other sessions of its group do not take it, and do not begin
        elsewhere.
        """
        companions = shape.requirements.placement_group
        if companions is None:
            return
        if companions.rule.is_spread:
            self._reserved.setdefault(companions.key, set()).update(ordinals)
        elif companions.key not in self._is_placed:
            self._reserved_for_first.setdefault(companions.key, tuple(ordinals))

    def ignore_reservations(self) -> None:
        """Ignore reservations from now on."""
        self._is_open = True

    @contextmanager
    def rules_ignored(self) -> Iterator[None]:
        """Ignore the rules of placement groups meanwhile."""
        self._is_ignored = True
        yield
        self._is_ignored = False

    def _filters(self, shape: "RequestClass", used: Collection[int]) -> Iterator[AgentFilter]:
        """Yield filters of agents for the next kernel, in order of preference. `used`: excluded
        agents.
        """
        companions = shape.requirements.placement_group
        if companions is None or self._is_ignored:
            yield AgentFilter(used)
            return
        key, rule = companions
        if rule.is_spread:
            counts = self._counts.get(key, NO_HOSTS) if self._is_open else self._excluded(key)
            for most in (0,) if rule.is_strict else sorted({0, *counts.values()}):
                yield AgentFilter({*used, *(each for each, count in counts.items() if count > most)})
            return
        begins = () if self._is_open else self._reserved_for_first.get(key, ())
        yield AgentFilter(used, self._fullest(key) or begins)
        if not (rule.is_strict and (begins or key in self._is_placed)):
            yield AgentFilter(used)
        if rule.is_strict:
            self._searched_hosts_only.setdefault(key, []).append(shape)

    def find_first(
        self, take: Callable[[AgentFilter], int | None], shape: "RequestClass", used: Collection[int]
    ) -> int | None:
        """Return the first agent number that `take` finds among the preferred agents, or the next
        ones; excludes `used`.
        """
        for allowed in self._filters(shape, used):
            ordinal = take(allowed)
            if ordinal is not None:
                return ordinal
        return None

    def allowed_agents(self, shape: "RequestClass", ordinals: list[int]) -> list[int]:
        """Filter agents by a strict rule of the placement group, beside reservations."""
        companions = shape.requirements.placement_group
        if companions is None or not companions.rule.is_strict:
            return ordinals
        key, rule = companions
        if rule.is_spread:
            counts = self._excluded(key)
            return [each for each in ordinals if each not in counts]
        hosts = self.group_hosts(key) if key in self._is_placed else self._reserved_for_first.get(key)
        return ordinals if hosts is None else [each for each in ordinals if each in hosts]

    def has_strict_rule(self, needs: "Requirements") -> bool:
        """Return True if a strict rule excludes agents for such needs."""
        return needs.placement_group is not None and needs.placement_group.rule.is_strict

    def group_hosts(self, key: str) -> Collection[int]:
        """Return the numbers of the schedulable agents that host the group."""
        return self._counts.get(key, NO_HOSTS).keys()

    def _excluded(self, key: str) -> Mapping[int, int]:
        counts = self._counts.get(key, NO_HOSTS)
        kept = self._reserved.get(key)
        return {**dict.fromkeys(kept, 1), **counts} if kept else counts

    def _fullest(self, key: str) -> tuple[int, ...]:
        """Return host agents, most sessions of the group first, then the smallest id."""
        counts = self._counts.get(key, NO_HOSTS)
        return tuple(sorted(counts, key=lambda ordinal: (-counts[ordinal], -ordinal)))
