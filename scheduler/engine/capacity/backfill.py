"""Find when and where a session without capacity will find it, by known ends, else by expected
ends.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import nlargest, nsmallest

from scheduler.engine.accelerators import DeviceShare
from scheduler.engine.capacity.ledger import Until
from scheduler.engine.capacity.tracker import CapacityTracker
from scheduler.engine.index.request_class import RequestClass
from scheduler.engine.index.resource_vector import Layout

Nearness = tuple[int, int]  # smaller is nearer
# Certainty (below), time, nearness, negated agent number.
Opening = tuple[int, datetime, Nearness, int]
# Certainty of an opening, best first: time known; time expected; expected too late to end before
# the agent is reserved.
KNOWN, EXPECTED, LATE = range(3)


@dataclass(frozen=True, slots=True)
class EarliestStart:
    """Agents (numbers) where each kernel of a request class finds capacity first. `until`: when it is free
    at the latest; None if it depends on unknown ends. `expected`: when it is probably free.
    `is_late`: the session would probably not end before an agent is reserved.
    """

    agent_numbers: list[int]
    until: Until
    expected: datetime
    is_late: bool = False

    def is_in_time(self, by: datetime) -> bool:
        return self.until is not None and self.until <= by


def earliest_start(
    tracker: CapacityTracker,
    layout: Layout,
    request_class: RequestClass,
    now: datetime,
    max_runtime: timedelta | None,
    *,
    hosts: Iterable[int],
    known_only: bool,
) -> EarliestStart | None:
    """Return the soonest prospect on these agents (numbers); None if there will never be capacity
    beside reservations or, if `known_only`, if no time is known. Agents that will be reserved
    before the session could end are left out; if that is only expected, they come last.

    Unlike kernels are counted as large as the largest in each field; spread kernels get an agent
    each; kernels that must be together share one agent. Linked devices are known to be free only
    where all but a few are.
    """
    kernels, count = len(request_class.queries), _opening_count(request_class)
    openings: list[Opening] = []
    for agent_number, found in _openings(tracker, layout, request_class, now, hosts, known_only=known_only):
        latest = tracker.latest_start(agent_number, max_runtime)
        openings += found if latest is None else _begin_in_time(found, latest, now)
    chosen = nsmallest(count, openings)
    if len(chosen) < count:
        return None
    worst = max(certainty for certainty, _, _, _ in chosen)
    last = max(at for _, at, _, _ in chosen)
    until = last if worst == KNOWN else None
    agent_numbers = [-negated for _, _, _, negated in chosen] * (kernels // count)
    if request_class.is_bounded and until is not None:  # all kernels start at the same time
        bounds = [tracker.latest_start(agent_number, max_runtime) for agent_number in agent_numbers]
        if any(latest is not None and until > latest for latest in bounds):
            return None
    return EarliestStart(agent_numbers, until, last, worst == LATE)


def longest_runtime(
    tracker: CapacityTracker,
    layout: Layout,
    request_class: RequestClass,
    now: datetime,
    *,
    hosts: Iterable[int],
    known_only: bool,
) -> timedelta:
    """Return the maximum run time of a session of this class for which `earliest_start` may succeed:
    each kernel has the longest span between an opening and a reservation window.
    """
    spans: list[timedelta] = []
    for agent_number, found in _openings(tracker, layout, request_class, now, hosts, known_only=known_only):
        closes_at = tracker.latest_start(agent_number, timedelta())
        spans += [timedelta.max if closes_at is None else closes_at - _earliest(each, now) for each in found]
    count = _opening_count(request_class)
    return nlargest(count, spans)[-1] if len(spans) >= count else -timedelta.resolution


def _earliest(opening: Opening, now: datetime) -> datetime:
    """Return the earliest time of an opening; now if unknown."""
    certainty, at, _, _ = opening
    return at if certainty == KNOWN else now


def _begin_in_time(openings: Iterable[Opening], latest: datetime, now: datetime) -> Iterator[Opening]:
    """Yield openings that may begin by `latest`, marked LATE if they probably will not."""
    for each in openings:
        if _earliest(each, now) <= latest:
            yield (LATE, *each[1:]) if each[1] > latest else each


def _opening_count(request_class: RequestClass) -> int:
    """Return the number of openings needed."""
    return 1 if request_class.is_together else len(request_class.queries)


def _openings(
    tracker: CapacityTracker,
    layout: Layout,
    request_class: RequestClass,
    now: datetime,
    hosts: Iterable[int],
    *,
    known_only: bool,
) -> Iterator[tuple[int, list[Opening]]]:
    """Yield each agent that is large enough with its openings."""
    largest, kernels = layout.greatest(request_class.requests), len(request_class.queries)
    for agent_number in hosts:
        if tracker.agents.is_large_enough(agent_number, request_class.largest_single(largest)):
            count = 1 if request_class.is_spread else kernels
            request = largest + tracker.linked_surplus(agent_number, request_class)
            found = _openings_on(tracker, layout, agent_number, request, count, now, known_only=known_only)
            # If kernels must be together, capacity for the last is capacity for all.
            yield agent_number, found[kernels - 1 :] if request_class.is_together else found


def _openings_on(
    tracker: CapacityTracker,
    layout: Layout,
    agent_number: int,
    request: int,
    count: int,
    now: datetime,
    *,
    known_only: bool,
) -> list[Opening]:
    """Return when the agent has capacity for one, two, … `count` such requests; if `known_only`,
    only known times.
    """
    openings: list[Opening] = []
    room, at = tracker.free(agent_number), now
    for number, end in enumerate((None, *tracker.ends(agent_number))):
        if end is not None:
            at, released = end
            room = tracker.add_released(agent_number, room, released)
        while len(openings) < count and tracker.fits_on(
            agent_number, request, room, at=at, count=len(openings) + 1
        ):
            openings.append((KNOWN, at, (number, 0), -agent_number))
    while len(openings) < count and not known_only:
        number = len(openings) + 1
        wanted = request * number
        if not layout.fits(wanted, tracker.agents.capacities[agent_number]):
            break
        enough, of_the_rest = layout.nearness(wanted, room)
        at = _expected_opening(tracker, agent_number, request, number, now)
        openings.append((EXPECTED, at, (-enough, -of_the_rest), -agent_number))
    return openings


def _expected_opening(
    tracker: CapacityTracker, agent_number: int, request: int, count: int, now: datetime
) -> datetime:
    """Return when there is probably capacity for `count` such requests. If all expected ends
    together do not suffice (sessions placed in this pass), return the last of them.
    """
    known = [(at, released, ()) for at, released in tracker.ends(agent_number)]
    unknown = [
        (max(now, each.ends_at), tracker.released(agent_number, each), each.shares)
        for each in tracker.agents.views[agent_number].expected_ends
    ]
    room, at, gone = tracker.free(agent_number), now, list[DeviceShare]()
    for at, released, shares in sorted([*known, *unknown]):  # noqa: B007 -- returned
        room, gone = tracker.add_released(agent_number, room, released), [*gone, *shares]
        whole = tracker.add_released(agent_number, room, tracker.unshared(agent_number, gone))
        if tracker.fits_on(agent_number, request, whole, gone, count=count):
            break
    return at
