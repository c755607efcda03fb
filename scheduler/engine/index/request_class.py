"""Requirements compiled for a pass: computed once, used for every session that has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from common.values.resources import ResourceSlots
from scheduler.engine.accelerators import FractionalRequest
from scheduler.engine.index.bin_index import Query
from scheduler.engine.snapshot import Requirements
from scheduler.engine.values import Fractions, Gang


def total_fractions(slots: ResourceSlots, total: Mapping[str, int]) -> Fractions:
    """Return the fraction of the group's total per slot, numbered by the order of `total`."""
    numbered = enumerate(total.items())
    return tuple([(number, slots[name] / amount) for number, (name, amount) in numbered if name in slots])


# Pools in which a kernel could run, in search order, with a query for each.
CandidateQueries = tuple[tuple[int, Query], ...]


@dataclass(frozen=True, slots=True, eq=False)
class RequestClass:
    """Equal requirements, compiled."""

    requirements: Requirements
    order: tuple[int, ...]  # kernels of `requirements`, largest first
    # For each, in that order, request vector and search; one entry if combined.
    queries: tuple[tuple[int, CandidateQueries], ...]
    designated: int | None  # number of the only allowed agent, if one is named; −1: it cannot host
    preferred: int | None  # number of the agent to try first, if any
    single_query: tuple[int, Query] | None  # of its only kernel, if there is only one pool
    total: int  # vector of all kernels
    least_memory: int  # smallest memory request, as a vector
    fractions: Fractions
    is_plain: bool = True  # any agent with capacity will do for each kernel, independent of others
    # All kernels on one agent, but searched one by one, as parts of devices do not add up.
    is_together: bool = False
    largest_kernel: int | None = None  # if all must be on one agent and are one request
    # Some of these pools will be reserved: only sessions that end before may run there.
    is_bounded: bool = False
    # Shareable parts of kernels, by request.
    fractional_requests: Mapping[int, FractionalRequest] = field(default_factory=dict)

    @property
    def requests(self) -> list[int]:
        """Request vectors of its kernels, largest first."""
        return [request for request, _ in self.queries]

    @property
    def is_spread(self) -> bool:
        """True if each of its kernels needs another agent."""
        return self.requirements.gang is Gang.SPREAD

    def largest_single(self, request: int) -> int:
        """Return the largest single kernel of a request, which must fit in the real capacity of an
        agent.
        """
        return request if self.largest_kernel is None else self.largest_kernel

    @property
    def pools(self) -> set[int]:
        """Pools in which one of its kernels could run."""
        return {pool for _, search in self.queries for pool, _ in search}


@dataclass(slots=True)
class PassState:
    """Results of searches for sessions of one request class during a pass."""

    request_class: RequestClass
    has_no_room: bool = False  # within a pass capacity only shrinks: what failed once fails again
    # while it has no capacity: sessions with this end or a later one found none
    no_room_from: datetime | None = None
    search_failed: bool = False  # for a reservation with a known start
    may_reserve: bool = True  # a reservation for one of its sessions is still possible
    # If bounded: longest run time for which a reservation is possible; by whether the session has
    # waited long.
    longest_runtime: dict[bool, timedelta] = field(default_factory=dict)
    failed_searches: int = 0  # if bounded


class PassStates(dict[RequestClass, PassState]):
    """States of the request classes of a pass; made when first read."""

    def __missing__(self, request_class: RequestClass) -> PassState:
        state = self[request_class] = PassState(request_class)
        return state
