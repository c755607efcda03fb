"""Find the reservation windows that keep a session off agents that could run it."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from scheduler.engine.agent_views import Window
from scheduler.engine.capacity.capacity import Size
from scheduler.engine.capacity.capacity_hold import Until
from scheduler.engine.capacity.tracker import Machines
from scheduler.engine.index.request_shape import Shape
from scheduler.engine.index.resource_vector import FIELD_MASK, Layout, most_apart
from scheduler.engine.plan import Reserved
from scheduler.engine.values import HostTerms


class Closing(NamedTuple):
    """Suitable agents by id: free capacity and blocking reservations; blocked agents by size."""

    rooms: dict[int, int]
    windows: dict[int, Window]
    alike: dict[Size, list[int]]


class Closings:
    """Finder of the reservation windows that block sessions, by the capacity that is free at the
    time of the call; results are shared by equal terms.
    """

    def __init__(self, machines: Machines, layout: Layout) -> None:
        self._machines = machines
        self._layout = layout
        self._known: dict[tuple[HostTerms, int, int | None], Closing] = {}

    def in_the_way(self, shape: Shape, until: Until) -> Reserved | None:
        """Return the agents that are reserved for others now, or for anybody before `until`, if
        they have capacity for `shape`, or if there are no other agents; None if no such agent could
        ever run it.
        """
        if not self.is_any(shape, until):
            return None
        machines, (rooms, windows, alike) = self._machines, self._closed(shape, until)
        # Agents that could hold its largest kernel if empty and unreserved.
        able = [each for size, ids in alike.items() if machines.is_enough(size, shape) for each in ids]
        told = self._with_room(shape, able, rooms)
        has_others = len(windows) < len(rooms)
        if has_others and not (told and self._holds(shape, list(rooms.values()))):
            return None
        told, own = told or able, shape.needs.reservations
        if not told:
            return None
        first = min([windows[each] for each in told], key=lambda window: (window.opens_at(own), window))
        is_to_come = machines.is_to_come(first)
        return Reserved(
            len(told),
            first.ends_at,
            first.starts_at if is_to_come else None,
            is_own=first.reservation_id in own,
        )

    def is_any(self, shape: Shape, until: Until) -> bool:
        """Return True if a reservation excludes the session from any suitable agent."""
        return self._machines.has_windows and bool(self._closed(shape, until).windows)

    def _closed(self, shape: Shape, until: Until) -> Closing:
        needs, largest = shape.needs, shape.largest_kernel
        if not shape.is_bounded:  # what will be reserved could not run it anyway
            until = self._machines.ends_at(timedelta())
        key = needs.host_terms, self._machines.windows_before(until), largest
        if key not in self._known:
            suiting = [agent for agent in self._machines.schedulable if needs.suits(agent)]
            found = {agent.id: self._machines.closed_by(agent, needs, until) for agent in suiting}
            windows = {agent_id: window for agent_id, window in found.items() if window is not None}
            rooms = {agent_id: self._machines.room_of(agent_id, largest) for agent_id in found}
            alike: dict[Size, list[int]] = {}
            for agent_id in windows:
                alike.setdefault(self._machines.size_of(agent_id), []).append(agent_id)
            self._known[key] = Closing(rooms, windows, alike)
        return self._known[key]

    def _with_room(self, shape: Shape, agent_ids: list[int], rooms: Mapping[int, int]) -> list[int]:
        """Filter agents with capacity for the largest kernel, or for all kernels that must be
        together, each counted as the largest.
        """
        request, count = shape.requests[0], 1
        if shape.is_together:
            request, count = self._layout.greatest(shape.requests), len(shape.requests)
        part, fits = shape.parts.get(request), self._layout.fits
        least = request if part is None else part.joins  # quick filter: most lack even that
        found = [each for each in agent_ids if fits(least, rooms[each])]
        return [each for each in found if self._fits_on(request, rooms[each], count)]

    def _holds(self, shape: Shape, rooms: list[int]) -> bool:
        """Return True if agents with so much free could hold all kernels, given that one of them
        fits.
        """
        if shape.is_together or len(shape.requests) == 1:
            return True
        if shape.is_spread:
            return most_apart(shape.requests, rooms, self._fits_on) == len(shape.requests)
        left = rooms[:]
        for request, count in Counter(shape.requests).items():
            for place, room in enumerate(left):
                # Rests of single devices after other parts are unknown, so each part counts as a
                # whole device.
                fits = self._fits_on if room == rooms[place] else self._fits
                found = next((n for n in range(count) if not fits(request, room, n + 1)), count)
                left[place] = self._layout.less(room, request * found)
                count -= found
                if not count:
                    break
            else:
                return False
        return True

    def _fits(self, request: int, room: int, count: int = 1) -> bool:
        return self._layout.fits(request * count, room)

    def _fits_on(self, request: int, room: int, count: int = 1) -> bool:
        """Return True if `count` requests fit on the agent of `room`, including shared devices."""
        return self._machines.holds(room & FIELD_MASK, request, room, count=count)
