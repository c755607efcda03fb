"""Find the reservation windows that keep a session off agents that could run it."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from scheduler.engine.agent_views import ReservationWindow
from scheduler.engine.capacity.ledger import Until
from scheduler.engine.capacity.tracker import AgentSize, CapacityTracker
from scheduler.engine.index.request_class import RequestClass
from scheduler.engine.index.resource_vector import FIELD_MASK, Layout, spread_count
from scheduler.engine.plan import ReservedAgents
from scheduler.engine.values import HostCriteria


class BlockedAgents(NamedTuple):
    """Suitable agents by id: free capacity and blocking reservations; blocked agents by size."""

    rooms: dict[int, int]
    windows: dict[int, ReservationWindow]
    by_size: dict[AgentSize, list[int]]


class ReservationWindows:
    """Finder of the reservation windows that block sessions, by the capacity that is free at the
    time of the call; results are shared by equal terms.
    """

    def __init__(self, tracker: CapacityTracker, layout: Layout) -> None:
        self._tracker = tracker
        self._layout = layout
        self._known: dict[tuple[HostCriteria, int, int | None], BlockedAgents] = {}

    def blocking(self, request_class: RequestClass, until: Until) -> ReservedAgents | None:
        """Return the agents that are reserved for others now, or for anybody before `until`, if
        they have capacity for `request_class`, or if there are no other agents; None if no such agent could
        ever run it.
        """
        if not self.blocks_any(request_class, until):
            return None
        tracker, (rooms, windows, alike) = self._tracker, self._blocked(request_class, until)
        # Agents that could hold its largest kernel if empty and unreserved.
        able = [each for size, ids in alike.items() if tracker.is_enough(size, request_class) for each in ids]
        told = self._with_room(request_class, able, rooms)
        has_others = len(windows) < len(rooms)
        if has_others and not (told and self._fits_all(request_class, list(rooms.values()))):
            return None
        told, own = told or able, request_class.requirements.reservations
        if not told:
            return None
        first = min([windows[each] for each in told], key=lambda window: (window.opens_at(own), window))
        is_to_come = first.starts_at > tracker.now
        return ReservedAgents(
            len(told),
            first.ends_at,
            first.starts_at if is_to_come else None,
            is_own=first.reservation_id in own,
        )

    def blocks_any(self, request_class: RequestClass, until: Until) -> bool:
        """Return True if a reservation excludes the session from any suitable agent."""
        return self._tracker.agents.has_windows and bool(self._blocked(request_class, until).windows)

    def _blocked(self, request_class: RequestClass, until: Until) -> BlockedAgents:
        requirements, largest = request_class.requirements, request_class.largest_kernel
        if not request_class.is_bounded:  # what will be reserved could not run it anyway
            until = self._tracker.ends_at(timedelta())
        key = requirements.host_criteria, self._tracker.windows_before(until), largest
        if key not in self._known:
            suiting = [agent for agent in self._tracker.agents.views if requirements.suits(agent)]
            found = {agent.id: self._tracker.blocking_window(agent, requirements, until) for agent in suiting}
            windows = {agent_id: window for agent_id, window in found.items() if window is not None}
            rooms = {agent_id: self._tracker.free_for_one_kernel(agent_id, largest) for agent_id in found}
            alike: dict[AgentSize, list[int]] = {}
            for agent_id in windows:
                alike.setdefault(self._tracker.agent_size(agent_id), []).append(agent_id)
            self._known[key] = BlockedAgents(rooms, windows, alike)
        return self._known[key]

    def _with_room(
        self, request_class: RequestClass, agent_ids: list[int], rooms: Mapping[int, int]
    ) -> list[int]:
        """Filter agents with capacity for the largest kernel, or for all kernels that must be
        together, each counted as the largest.
        """
        request, count = request_class.requests[0], 1
        if request_class.is_together:
            request, count = self._layout.greatest(request_class.requests), len(request_class.requests)
        part, fits = request_class.fractional_requests.get(request), self._layout.fits
        least = request if part is None else part.joining_request  # quick filter: most lack even that
        found = [each for each in agent_ids if fits(least, rooms[each])]
        return [each for each in found if self._fits_on(request, rooms[each], count)]

    def _fits_all(self, request_class: RequestClass, rooms: list[int]) -> bool:
        """Return True if agents with so much free could hold all kernels, given that one of them
        fits.
        """
        if request_class.is_together or len(request_class.requests) == 1:
            return True
        if request_class.is_spread:
            return spread_count(request_class.requests, rooms, self._fits_on) == len(request_class.requests)
        left = rooms[:]
        for request, count in Counter(request_class.requests).items():
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
        return self._tracker.fits_on(room & FIELD_MASK, request, room, count=count)
