"""When and where a session that finds no room now will find it: by the ends that are known, else by those that are expected."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import nlargest, nsmallest

from scheduler.engine.accelerators import Share
from scheduler.engine.capacity.capacity_hold import Until
from scheduler.engine.capacity.tracker import Machines
from scheduler.engine.index.request_shape import Shape
from scheduler.engine.index.resource_vector import Layout

Nearness = tuple[int, int]  # the smaller the nearer
# One of the certainties; when, or when it is expected; how near; ordinal, negated.
Opening = tuple[int, datetime, Nearness, int]
# Of an opening, the better first: its time is known; expected; expected too late for the agent, which will be reserved before the end.
KNOWN, EXPECTED, LATE = range(3)


@dataclass(frozen=True, slots=True)
class Prospect:
    """Where each kernel of a shape will find room first (ordinals), and when all of it will be there, at the latest; None if
    something must end of which nobody knows when it will: then `expected` is when it probably has, and `is_late` says that the session
    would probably not end before an agent is reserved."""

    ordinals: list[int]
    until: Until
    expected: datetime
    is_late: bool = False

    def is_in_time(self, by: datetime) -> bool:
        return self.until is not None and self.until <= by


def soonest(
    machines: Machines,
    layout: Layout,
    shape: Shape,
    now: datetime,
    lasts: timedelta | None,
    *,
    hosts: Iterable[int],
    known_only: bool,
) -> Prospect | None:
    """On these agents (ordinals). None if there will never be room beside what is kept for others; or if `known_only`, if nobody knows when.
    Agents that will be reserved before what `lasts` so long would have ended are left out; where that is only expected, they come last.

    Kernels of a session that differ are counted as large as the largest in each field; those that are spread get an agent each,
    and one agent holds all that must be together.
    """
    kernels, count = len(shape.searches), _count(shape)
    openings: list[Opening] = []
    for ordinal, found in _openings(machines, layout, shape, now, hosts, known_only=known_only):
        latest = machines.latest_start(ordinal, lasts)
        openings += found if latest is None else _in_time(found, latest, now)
    chosen = nsmallest(count, openings)
    if len(chosen) < count:
        return None
    worst = max(certainty for certainty, _, _, _ in chosen)
    last = max(at for _, at, _, _ in chosen)
    until = last if worst == KNOWN else None
    ordinals = [-negated for _, _, _, negated in chosen] * (kernels // count)
    if shape.is_bounded and until is not None:  # all kernels begin together
        bounds = [machines.latest_start(ordinal, lasts) for ordinal in ordinals]
        if any(latest is not None and until > latest for latest in bounds):
            return None
    return Prospect(ordinals, until, last, worst == LATE)


def longest(
    machines: Machines,
    layout: Layout,
    shape: Shape,
    now: datetime,
    *,
    hosts: Iterable[int],
    known_only: bool,
) -> timedelta:
    """How long one of this shape may last at most for which `soonest` may find room there: each of its kernels could last as long where it has the most
    time between an opening and a reservation."""
    spans: list[timedelta] = []
    for ordinal, found in _openings(machines, layout, shape, now, hosts, known_only=known_only):
        closes_at = machines.latest_start(ordinal, timedelta())
        spans += [timedelta.max if closes_at is None else closes_at - _at_least(each, now) for each in found]
    count = _count(shape)
    return nlargest(count, spans)[-1] if len(spans) >= count else -timedelta.resolution


def _at_least(opening: Opening, now: datetime) -> datetime:
    """Return when it may begin at the earliest; an unknown time may be now."""
    certainty, at, _, _ = opening
    return at if certainty == KNOWN else now


def _in_time(openings: Iterable[Opening], latest: datetime, now: datetime) -> Iterator[Opening]:
    """Yield those that may begin by then, with LATE for those that probably will not."""
    for each in openings:
        if _at_least(each, now) <= latest:
            yield (LATE, *each[1:]) if each[1] > latest else each


def _count(shape: Shape) -> int:
    """How many openings it takes."""
    return 1 if shape.is_together else len(shape.searches)


def _openings(
    machines: Machines,
    layout: Layout,
    shape: Shape,
    now: datetime,
    hosts: Iterable[int],
    *,
    known_only: bool,
) -> Iterator[tuple[int, list[Opening]]]:
    """On each of these agents that is large enough."""
    largest, kernels = layout.greatest(shape.requests), len(shape.searches)
    for ordinal in hosts:
        if machines.is_large_enough(ordinal, shape.of_one_kernel(largest)):
            count = 1 if shape.is_spread else kernels
            found = _openings_on(machines, layout, ordinal, largest, count, now, known_only=known_only)
            # Of those that are together, room for the last is room for all.
            yield ordinal, found[kernels - 1 :] if shape.is_together else found


def _openings_on(
    machines: Machines,
    layout: Layout,
    ordinal: int,
    request: int,
    count: int,
    now: datetime,
    *,
    known_only: bool,
) -> list[Opening]:
    """When this agent will have room for one, two, … up to `count` such requests; if `known_only`, those of which that is known."""
    openings: list[Opening] = []
    room, at = machines.room(ordinal), now
    for number, end in enumerate((None, *machines.ends(ordinal))):
        if end is not None:
            at, released = end
            room = machines.grown(ordinal, room, released)
        while len(openings) < count and machines.holds(
            ordinal, request, room, at=at, count=len(openings) + 1
        ):
            openings.append((KNOWN, at, (number, 0), -ordinal))
    while len(openings) < count and not known_only:
        number = len(openings) + 1
        wanted = request * number
        if not layout.fits(wanted, machines.capacity(ordinal)):
            break
        enough, of_the_rest = layout.nearness(wanted, room)
        at = _expected(machines, ordinal, request, number, now)
        openings.append((EXPECTED, at, (-enough, -of_the_rest), -ordinal))
    return openings


def _expected(machines: Machines, ordinal: int, request: int, count: int, now: datetime) -> datetime:
    """Return when there will probably be room for so many such requests. Where not even that suffices which is expected to end, something has
    begun in this pass: not before the last of the others."""
    known = [(at, released, ()) for at, released in machines.ends(ordinal)]
    unknown = [
        (max(now, each.ends_at), machines.released(ordinal, each), each.shares)
        for each in machines.expected(ordinal)
    ]
    room, at, gone = machines.room(ordinal), now, list[Share]()
    for at, released, shares in sorted([*known, *unknown]):  # noqa: B007 -- returned
        room, gone = machines.grown(ordinal, room, released), [*gone, *shares]
        whole = machines.grown(ordinal, room, machines.unshared(ordinal, gone))
        if machines.holds(ordinal, request, whole, gone, count=count):
            break
    return at
