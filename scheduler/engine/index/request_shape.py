"""Requirements compiled for a pass: computed once, used for every session that has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from common.values.resources import ResourceSlots
from scheduler.engine.accelerators import Part
from scheduler.engine.index.bin_index import Query
from scheduler.engine.snapshot import Needs
from scheduler.engine.values import Fractions, Gang


def fractions_of(slots: ResourceSlots, total: Mapping[str, int]) -> Fractions:
    """Of all that a group has, by the order of `total`."""
    numbered = enumerate(total.items())
    return tuple([(number, slots[name] / amount) for number, (name, amount) in numbered if name in slots])


# In which pools a kernel could run, in the order to look, and where in each.
Search = tuple[tuple[int, Query], ...]


@dataclass(slots=True, eq=False)
class Shape:
    """Equal needs, compiled. What changes in a pass is as good as new when the next begins."""

    needs: Needs
    order: tuple[int, ...]  # the kernels of `needs`, the largest first
    # Of each, in that order, its request as a vector and where to look; one for all where they are one request.
    searches: tuple[tuple[int, Search], ...]
    designated: int | None  # the ordinal of the only agent it may run on, if one is named; −1: there is none
    preferred: int | None  # the ordinal of the agent where it is looked for room first, if there is one
    lone_search: tuple[int, Query] | None  # that of its only kernel, if one pool is all there is to ask
    total: int  # of all kernels together, as a vector
    least_memory: int  # nothing is looked for with less, as a vector
    fractions: Fractions
    is_plain: bool = True  # whether any agent with room will do for each kernel, wherever the others are
    # Whether all must be on one agent, and yet each has a search: parts of devices do not add up.
    is_together: bool = False
    largest_kernel: int | None = None  # if all must be on one agent, and are one request
    # Whether some of these pools will be reserved: only what ends before may run there.
    is_bounded: bool = False
    no_room_from: datetime | None = None  # while it has no room: what ended then or later found none either
    has_no_room: bool = False  # within a pass room only shrinks: what failed once fails again
    looked_in_vain: bool = False  # for room to keep, of which it is known when it will be there
    may_keep: bool = True  # whether room could still be kept for one of its sessions
    # Where it is bounded: no room is kept for who lasts longer; of those that have waited for long, and of the others.
    longest: dict[bool, timedelta] = field(default_factory=dict)
    looks_in_vain: int = 0  # where it is bounded
    # By request, of those kernels that may share a device.
    parts: Mapping[int, Part] = field(default_factory=dict)

    @property
    def requests(self) -> list[int]:
        """Of its kernels, the largest first."""
        return [request for request, _ in self.searches]

    @property
    def is_spread(self) -> bool:
        """Whether no two of its kernels may be on one agent."""
        return self.needs.gang is Gang.SPREAD

    def of_one_kernel(self, request: int) -> int:
        """The most that a container of what is asked so gets: no more than a machine has, whatever that promises."""
        return request if self.largest_kernel is None else self.largest_kernel

    @property
    def pools(self) -> set[int]:
        """All in which one of its kernels could run."""
        return {pool for _, search in self.searches for pool, _ in search}
