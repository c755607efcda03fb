"""Apply placement groups: sessions that run apart from each other, or together."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from scheduler.engine.index.bin_index import BinIndex, restricted_to
from scheduler.engine.index.request_class import CandidateQueries, PassState, PassStates, RequestClass
from scheduler.engine.snapshot import Requirements
from scheduler.engine.values import GroupHost

NO_HOSTS: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class AgentFilter:
    """Filter of agents (numbers): all but some, or only a few; `hosts` and `linked` restrict both
    further; None: no restriction.
    """

    without: Collection[int] = ()
    only: tuple[int, ...] | None = None
    hosts: Container[int] | None = None
    linked: Container[int] | None = None  # agents with enough linked devices

    def __contains__(self, agent_number: object) -> bool:
        if agent_number in self.without or (self.only is not None and agent_number not in self.only):
            return False
        return (self.hosts is None or agent_number in self.hosts) and (
            self.linked is None or agent_number in self.linked
        )

    def take(
        self,
        search: CandidateQueries,
        bins: Sequence[BinIndex],
        pool_of: Sequence[int],
        take_on: Callable[[int], bool],
    ) -> int | None:
        """Take capacity on the first agent that has it: a few agents in order by `take_on`, else by
        the grids of the pools. Return its number.
        """
        queries, few = self.within(search, pool_of)
        tries = (bins[pool].take(query) for pool, query in queries)
        found = next((agent_number for agent_number in tries if agent_number is not None), None)
        return next((each for each in few if take_on(each)), None) if found is None else found

    def within(self, search: CandidateQueries, pool_of: Sequence[int]) -> tuple[CandidateQueries, list[int]]:
        """Apply the filter: return the restricted search, or a list of a few agents in order."""
        if self.only is None:
            return tuple(
                (pool, restricted_to(query, replace(self, hosts=query[-1]))) for pool, query in search
            ), []
        hosts = {pool: query[-1] for pool, query in search}
        return (), [each for each in self.only if self._is_in(each, pool_of, hosts)]

    def _is_in(
        self, agent_number: int, pool_of: Sequence[int], hosts: Mapping[int, Container[int] | None]
    ) -> bool:
        if pool_of[agent_number] not in hosts:
            return False
        of_pool = hosts[pool_of[agent_number]]
        return agent_number in self and (of_pool is None or agent_number in of_pool)


class GroupOccupancy:
    """Occupancy of placement groups by agent, updated while a pass places sessions."""

    def __init__(
        self,
        hosts: Mapping[str, Iterable[GroupHost]],
        agent_numbers: Mapping[int, int],
        states: PassStates,
    ) -> None:
        found = {key: {each.agent_id: each.sessions for each in places} for key, places in hosts.items()}
        # By key, then by agent number; unschedulable agents are left out.
        self._counts = {
            key: {agent_numbers[each]: count for each, count in counts.items() if each in agent_numbers}
            for key, counts in found.items()
        }
        # keys of groups with any session placed
        self._is_placed = {key for key, counts in found.items() if counts}
        self._reserved: dict[str, set[int]] = {}  # agents reserved for sessions that run apart
        self._reserved_for_first: dict[
            str, tuple[int, ...]
        ] = {}  # agents reserved for the first session of a group
        # Request classes that search only where their group is.
        self._searched_hosts_only: dict[str, list[PassState]] = {}
        self._states = states
        self._is_open = False  # reservations no longer count
        self._is_ignored = False

    def record_placement(self, request_class: RequestClass, agent_numbers: Iterable[int]) -> None:
        """Record a placement of that request class."""
        placement_group = request_class.requirements.placement_group
        if placement_group is None:
            return
        counts = self._counts.setdefault(placement_group.key, {})
        self._is_placed.add(placement_group.key)
        for agent_number in set(agent_numbers):
            if agent_number not in counts:
                for each in self._searched_hosts_only.pop(placement_group.key, ()):
                    each.has_no_room = False
            counts[agent_number] = counts.get(agent_number, 0) + 1

    def record_reservation(self, request_class: RequestClass, agent_numbers: Iterable[int]) -> None:
        """Record a reservation: other sessions of its group do not take it, and do not begin
        elsewhere.
        """
        placement_group = request_class.requirements.placement_group
        if placement_group is None:
            return
        if placement_group.rule.is_spread:
            self._reserved.setdefault(placement_group.key, set()).update(agent_numbers)
        elif placement_group.key not in self._is_placed:
            self._reserved_for_first.setdefault(placement_group.key, tuple(agent_numbers))

    def ignore_reservations(self) -> None:
        """Ignore reservations from now on."""
        self._is_open = True

    @contextmanager
    def rules_ignored(self) -> Iterator[None]:
        """Ignore the rules of placement groups meanwhile."""
        self._is_ignored = True
        yield
        self._is_ignored = False

    def _filters(self, request_class: RequestClass, used: Collection[int]) -> Iterator[AgentFilter]:
        """Yield filters of agents for the next kernel, in order of preference. `used`: excluded
        agents.
        """
        placement_group = request_class.requirements.placement_group
        if placement_group is None or self._is_ignored:
            yield AgentFilter(used)
            return
        key, rule = placement_group
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
            self._searched_hosts_only.setdefault(key, []).append(self._states[request_class])

    def find_first(
        self, take: Callable[[AgentFilter], int | None], request_class: RequestClass, used: Collection[int]
    ) -> int | None:
        """Return the first agent number that `take` finds among the preferred agents, or the next
        ones; excludes `used`.
        """
        for allowed in self._filters(request_class, used):
            agent_number = take(allowed)
            if agent_number is not None:
                return agent_number
        return None

    def allowed_agents(self, request_class: RequestClass, agent_numbers: list[int]) -> list[int]:
        """Filter agents by a strict rule of the placement group, beside reservations."""
        placement_group = request_class.requirements.placement_group
        if placement_group is None or not placement_group.rule.is_strict:
            return agent_numbers
        key, rule = placement_group
        if rule.is_spread:
            counts = self._excluded(key)
            return [each for each in agent_numbers if each not in counts]
        hosts = self.group_hosts(key) if key in self._is_placed else self._reserved_for_first.get(key)
        return agent_numbers if hosts is None else [each for each in agent_numbers if each in hosts]

    def has_strict_rule(self, requirements: Requirements) -> bool:
        """Return True if a strict rule excludes agents for such requirements."""
        return requirements.placement_group is not None and requirements.placement_group.rule.is_strict

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
        return tuple(sorted(counts, key=lambda agent_number: (-counts[agent_number], -agent_number)))
