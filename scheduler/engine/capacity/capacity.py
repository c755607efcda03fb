"""Facts about the agents of a pass that placements do not change: size, reservation windows,
expected ends.
"""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from scheduler.engine.agent_views import AgentView, ReservationWindow, RunningAllocation
from scheduler.engine.capacity.capacity_hold import Until
from scheduler.engine.index.accelerator_vectors import can_assign_all
from scheduler.engine.index.agent_index import AgentIndex, AgentSizes
from scheduler.engine.index.request_class import CandidateQueries, RequestClass
from scheduler.engine.index.resource_vector import FIELD_MASK
from scheduler.engine.snapshot import Requirements
from scheduler.engine.values import ASSUMED_RUNTIME


class AgentSize(NamedTuple):
    """Capacity of an agent and the most that one kernel gets, as vectors without its number; and
    the slots whose devices are known one by one.
    """

    capacity: int
    largest: int
    device_names: tuple[str, ...]


class AgentFacts:
    """Agents of a pass: sizes and reservation windows."""

    def __init__(self, agents: AgentIndex, now: datetime) -> None:
        self._agents = agents
        self._layout = agents.layout
        self._now = now
        self._unknown_until = now + ASSUMED_RUNTIME
        self._window_starts: list[datetime] | None = None  # sorted; None: not computed yet

    @property
    def has_windows(self) -> bool:
        """True if any agent is reserved, now or later."""
        return self._agents.has_windows

    @property
    def schedulable(self) -> Sequence[AgentView]:
        return self._agents.views

    def ends_at(self, max_runtime: timedelta | None) -> Until:
        """Return the end of a session that starts now; None: unknown."""
        return None if max_runtime is None else self._now + max_runtime

    def blocking_window(
        self, agent: AgentView, requirements: Requirements, until: Until
    ) -> ReservationWindow | None:
        """Return the reservation that keeps a session ending at `until` off the agent: one of
        others that is open, or any that begins before its end.
        """
        if not requirements.may_run_on(agent):
            return agent.window
        window = agent.next_window
        return window if window and self._assumed_end(until) > window.starts_at else None

    def windows_before(self, until: Until) -> int:
        """Return how many future reservation windows begin before `until`; equal counts give equal
        results.
        """
        if self._window_starts is None:
            windows = (agent.next_window for agent in self._agents.views)
            self._window_starts = sorted({window.starts_at for window in windows if window})
        return bisect_left(self._window_starts, self._assumed_end(until))

    def is_future(self, window: ReservationWindow) -> bool:
        return window.starts_at > self._now

    def latest_start(self, agent_number: int, max_runtime: timedelta | None) -> datetime | None:
        """Return the latest start there that ends before the agent is reserved; None: any time."""
        window = self._agents.views[agent_number].next_window
        return window and window.starts_at - (ASSUMED_RUNTIME if max_runtime is None else max_runtime)

    def expected_ends(self, agent_number: int) -> Sequence[RunningAllocation]:
        """Return the allocations there without a known end, with their expected ends."""
        return self._agents.views[agent_number].expected_ends

    def agent_number(self, agent_id: int) -> int | None:
        return self._agents.numbers.get(agent_id)

    def capacity(self, agent_number: int) -> int:
        return self._agents.capacities[agent_number]

    def agent_size(self, agent_id: int) -> AgentSize:
        agents, agent_number = self._agents, self._agents.numbers[agent_id]
        names = tuple([devices.slot_name for devices in agents.views[agent_number].devices])
        return AgentSize(
            agents.capacities[agent_number] - agent_number, agents.largest[agent_number] - agent_number, names
        )

    def is_enough(self, size: AgentSize, request_class: RequestClass) -> bool:
        """Return True if an empty agent of that size could hold the largest kernel of `request_class`."""
        request, fits = request_class.requests[0], self._layout.fits
        is_large = fits(request, size.capacity) and fits(request_class.largest_single(request), size.largest)
        return is_large and can_assign_all(
            request_class.requirements.kernels[request_class.order[0]], size.device_names
        )

    def sizes(self, requirements: Requirements, largest: int | None = None) -> AgentSizes:
        """Return the sizes of the agents that could host `requirements` at any time, schedulable or not;
        `largest` as in `rooms_for_one`.
        """
        return self._agents.sizes(requirements, largest)

    def largest_kernels(self, requirements: Requirements) -> list[int]:
        """Return the most that one kernel gets on each of these agents."""
        return self._agents.largest_kernels(requirements)

    def is_large_enough(self, agent_number: int, request: int) -> bool:
        """Return True if one kernel of this size fits on the empty agent."""
        return self._layout.fits(request, self._agents.largest[agent_number])

    def limit_to_one_kernel(self, vectors: list[int], largest: int | None) -> list[int]:
        """Limit free vectors to what one kernel may get; with `largest`, the largest kernel of
        several, to agents that can hold it.
        """
        agents, fits = self._agents, self._layout.fits
        if largest is None and not agents.is_overcommitted:
            return vectors
        owned = [(vector, agents.largest[vector & FIELD_MASK]) for vector in vectors]
        if largest is not None:
            return [vector if fits(largest, most) else vector & FIELD_MASK for vector, most in owned]
        return [self._layout.lesser(vector, most) for vector, most in owned]

    def add_released(self, agent_number: int, room: int, released: int) -> int:
        """Add released capacity to `room`, at most up to the capacity of the agent."""
        missing = self._layout.less(self.capacity(agent_number), room - agent_number) - agent_number
        return room + self._layout.lesser(released, missing)

    def _with_model(self, requirements: Requirements, agent_numbers: list[int]) -> list[int]:
        """Filter agents by the requested device model."""
        if not requirements.device_model:
            return agent_numbers
        return [
            agent_number
            for agent_number in agent_numbers
            if requirements.suits(self._agents.views[agent_number])
        ]

    def _record_again(self, agent_number: int) -> None:
        """Note that an agent has more capacity. Does nothing here, as failed searches are not
        remembered.
        """

    def _is_host(self, request_class: RequestClass, search: CandidateQueries, agent_number: int) -> bool:
        """Return True if a kernel with this search could run on the agent, given capacity."""
        if request_class.designated is not None:
            return agent_number == request_class.designated
        pool = self._agents.pool_of[agent_number]
        is_searched = any(number == pool for number, _query in search)
        return is_searched and request_class.requirements.suits(self._agents.views[agent_number])

    def _may_host(
        self, request_class: RequestClass, request: int, search: CandidateQueries, agent_number: int
    ) -> bool:
        """Return True if it could run there and the agent is large enough."""
        is_host = self._is_host(request_class, search, agent_number)
        return is_host and self.is_large_enough(agent_number, request_class.largest_single(request))

    def _assumed_end(self, until: Until) -> datetime:
        return self._unknown_until if until is None else until
