"""Facts about the agents of a pass that placements do not change: size, reservation windows,
expected ends.
"""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from scheduler.engine.agent_views import AgentView, Running, Window
from scheduler.engine.capacity.capacity_hold import Until
from scheduler.engine.index.accelerator_vectors import can_deal
from scheduler.engine.index.agent_index import Fleet, Sizes
from scheduler.engine.index.request_shape import Search, Shape
from scheduler.engine.index.resource_vector import FIELD_MASK
from scheduler.engine.snapshot import Needs
from scheduler.engine.values import LENGTH_OF_UNKNOWN


class Size(NamedTuple):
    """Capacity of an agent and the most that one kernel gets, as vectors without its number; and
    the slots whose devices are known one by one.
    """

    capacity: int
    largest: int
    device_names: tuple[str, ...]


class Surroundings:
    """Agents of a pass: sizes and reservation windows."""

    def __init__(self, fleet: Fleet, now: datetime) -> None:
        self._fleet = fleet
        self._layout = fleet.layout
        self._now = now
        self._unknown_until = now + LENGTH_OF_UNKNOWN
        self._closing_at: list[datetime] | None = None  # sorted; None: not computed yet

    @property
    def has_windows(self) -> bool:
        """True if any agent is reserved, now or later."""
        return self._fleet.has_windows

    @property
    def schedulable(self) -> Sequence[AgentView]:
        return self._fleet.agents

    def ends_at(self, lasts: timedelta | None) -> Until:
        """Return the end of a session that starts now; None: unknown."""
        return None if lasts is None else self._now + lasts

    def closed_by(self, agent: AgentView, needs: Needs, until: Until) -> Window | None:
        """Return the reservation that keeps a session ending at `until` off the agent: one of
        others that is open, or any that begins before its end.
        """
        if not needs.may_run_on(agent):
            return agent.window
        window = agent.next_window
        return window if window and self._end(until) > window.starts_at else None

    def windows_before(self, until: Until) -> int:
        """Return how many future reservation windows begin before `until`; equal counts give equal
        results.
        """
        if self._closing_at is None:
            windows = (agent.next_window for agent in self._fleet.agents)
            self._closing_at = sorted({window.starts_at for window in windows if window})
        return bisect_left(self._closing_at, self._end(until))

    def is_to_come(self, window: Window) -> bool:
        return window.starts_at > self._now

    def latest_start(self, ordinal: int, lasts: timedelta | None) -> datetime | None:
        """Return the latest start there that ends before the agent is reserved; None: any time."""
        window = self._fleet.agents[ordinal].next_window
        return window and window.starts_at - (LENGTH_OF_UNKNOWN if lasts is None else lasts)

    def expected(self, ordinal: int) -> Sequence[Running]:
        """Return the allocations there without a known end, with their expected ends."""
        return self._fleet.agents[ordinal].expected

    def ordinal_of(self, agent_id: int) -> int | None:
        return self._fleet.ordinals.get(agent_id)

    def capacity(self, ordinal: int) -> int:
        return self._fleet.capacities[ordinal]

    def size_of(self, agent_id: int) -> Size:
        fleet, ordinal = self._fleet, self._fleet.ordinals[agent_id]
        names = tuple([devices.slot_name for devices in fleet.agents[ordinal].devices])
        return Size(fleet.capacities[ordinal] - ordinal, fleet.largest[ordinal] - ordinal, names)

    def is_enough(self, size: Size, shape: Shape) -> bool:
        """Return True if an empty agent of that size could hold the largest kernel of `shape`."""
        request, fits = shape.requests[0], self._layout.fits
        is_large = fits(request, size.capacity) and fits(shape.of_one_kernel(request), size.largest)
        return is_large and can_deal(shape.needs.kernels[shape.order[0]], size.device_names)

    def sizes(self, needs: Needs, largest: int | None = None) -> Sizes:
        """Return the sizes of the agents that could host `needs` at any time, schedulable or not;
        `largest` as in `rooms_for_one`.
        """
        return self._fleet.sizes(needs, largest)

    def sizes_of_each(self, needs: Needs) -> list[int]:
        """Return the most that one kernel gets on each of these agents."""
        return self._fleet.sizes_of_each(needs)

    def is_large_enough(self, ordinal: int, request: int) -> bool:
        """Return True if one kernel of this size fits on the empty agent."""
        return self._layout.fits(request, self._fleet.largest[ordinal])

    def rooms_for_one(self, vectors: list[int], largest: int | None) -> list[int]:
        """Limit free vectors to what one kernel may get; with `largest`, the largest kernel of
        several, to agents that can hold it.
        """
        fleet, fits = self._fleet, self._layout.fits
        if largest is None and not fleet.is_overcommitted:
            return vectors
        owned = [(vector, fleet.largest[vector & FIELD_MASK]) for vector in vectors]
        if largest is not None:
            return [vector if fits(largest, most) else vector & FIELD_MASK for vector, most in owned]
        return [self._layout.lesser(vector, most) for vector, most in owned]

    def grown(self, ordinal: int, room: int, released: int) -> int:
        """Add released capacity to `room`, at most up to the capacity of the agent."""
        missing = self._layout.less(self.capacity(ordinal), room - ordinal) - ordinal
        return room + self._layout.lesser(released, missing)

    def _suiting(self, needs: Needs, ordinals: list[int]) -> list[int]:
        """Filter agents by the requested device model."""
        if not needs.device_model:
            return ordinals
        return [ordinal for ordinal in ordinals if needs.suits(self._fleet.agents[ordinal])]

    def _tell_again(self, ordinal: int) -> None:
        """Note that an agent has more capacity. Does nothing here, as failed searches are not
        remembered.
        """

    def _is_host(self, shape: Shape, search: Search, ordinal: int) -> bool:
        """Return True if a kernel with this search could run on the agent, given capacity."""
        if shape.designated is not None:
            return ordinal == shape.designated
        pool = self._fleet.pool_of[ordinal]
        is_searched = any(number == pool for number, _query in search)
        return is_searched and shape.needs.suits(self._fleet.agents[ordinal])

    def _may_host(self, shape: Shape, request: int, search: Search, ordinal: int) -> bool:
        """Return True if it could run there and the agent is large enough."""
        is_host = self._is_host(shape, search, ordinal)
        return is_host and self.is_large_enough(ordinal, shape.of_one_kernel(request))

    def _end(self, until: Until) -> datetime:
        return self._unknown_until if until is None else until
