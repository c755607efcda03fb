"""Estimate a range for the start of a pending session by Monte Carlo simulation. Pure.

The remaining times of running sessions are drawn many times from the run times of similar sessions;
each draw places the queue on the capacity that becomes free; the range covers nearly all draws.
Time limits end sessions in the draws too. On an agent that is reserved for others, or will be
before the session could have ended, the session starts after the reservation. Not foreseen: later
sessions with a higher priority, agents that come or go. The range is no promise.
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil, inf
from random import Random
from uuid import UUID

from sessions_app.core.start_estimate import StartRange

MIN_SAMPLES = 5  # fewer run times are not used
MIN_REMAINING_S = 60.0  # expected remaining time if nothing is known
MAX_AHEAD = 30
MAX_DRAWS, MIN_DRAWS = 80, 12
MAX_KERNELS_DRAWN = 40_000  # maximum number of kernels drawn, over all draws
# Nearly all draws, as no draw contains later sessions that fill gaps. Coverage is measured by
# tests/property/test_start_estimates.py.
EARLY, LATE = 0.02, 0.98

Kind = tuple[int, int, str]  # owner, image, type
Slots = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AllocatedKernel:
    """Allocation of a kernel: seconds it has run, and seconds it may run on at most; None: unknown."""

    agent_id: int
    slots: Slots
    kind: Kind
    ran_s: float
    max_left_s: float | None = None


@dataclass(frozen=True, slots=True)
class QueuedSession:
    """A pending session. `slots`: request of each kernel; `agent_ids`: agents that could run it;
    `lasts_s`: its time limit. `closed`: by agent, spans (from, to) in seconds in which it may not
    begin there, by start. `is_spread`: each kernel on another agent.
    """

    id: UUID
    slots: Slots
    kernels: int
    agent_ids: Sequence[int]
    kind: Kind
    max_runtime_s: float | None = None
    blocked: Mapping[int, Sequence[tuple[float, float]]] = field(default_factory=dict)
    is_spread: bool = False


class RunLengths:
    """Run times of past sessions in seconds, by owner, image and type; by image and type if the
    owner has few.
    """

    def __init__(self, seen: Mapping[Kind, Sequence[float]]) -> None:
        self._own = {kind: sorted(lengths) for kind, lengths in seen.items()}
        shared: dict[tuple[int, str], list[float]] = {}
        for (_owner, image, type_), lengths in seen.items():
            shared.setdefault((image, type_), []).extend(lengths)
        self._shared = {key: sorted(lengths) for key, lengths in shared.items()}

    def remaining_s(self, kind: Kind, ran_s: float) -> list[float]:
        """Return the remaining times of past sessions that ran longer than `ran_s`; [] if fewer
        than MIN_SAMPLES did.
        """
        _owner, image, type_ = kind
        for lengths in (self._own.get(kind, ()), self._shared.get((image, type_), ())):
            left = [length - ran_s for length in lengths if length > ran_s]
            if len(left) >= MIN_SAMPLES:
                return left
        return []

    def expected_remaining_s(self, kind: Kind, ran_s: float) -> float:
        """Return the median remaining time of past sessions that ran longer than `ran_s`; if too
        few did, as long again as it has run.
        """
        _owner, image, type_ = kind
        for lengths in (self._own.get(kind, ()), self._shared.get((image, type_), ())):
            longer = len(lengths) - bisect_right(lengths, ran_s)
            if longer >= MIN_SAMPLES:
                return lengths[-1 - longer // 2] - ran_s
        return expected_overtime_s(ran_s)


def expected_overtime_s(ran_s: float) -> float:
    """Return the expected remaining time of a session that ran longer than anything known: as long
    again, MIN_REMAINING_S at least.
    """
    return max(ran_s, MIN_REMAINING_S)


def at_the_latest(no_later_s: float | None) -> StartRange | None:
    """Return a range that only has an upper bound; None without one."""
    return None if no_later_s is None else StartRange(0, ceil(no_later_s))


def estimate_each(
    queue: Sequence[QueuedSession],
    held: Sequence[AllocatedKernel],
    free: Mapping[int, Slots],
    lengths: RunLengths,
    *,
    no_later_s: Mapping[UUID, float],
) -> dict[UUID, StartRange | None]:
    """Return the range in which each session of the queue starts, in order; None if unknown. At most
    MAX_AHEAD precede the last. `free`: free slots of each agent now; `no_later_s`: by session, when
    capacity reserved for it is free at the latest. Deterministic.
    """
    hosts = {agent_id for each in queue for agent_id in each.agent_ids}
    holding = [(each, lengths.remaining_s(each.kind, each.ran_s)) for each in held if each.agent_id in hosts]
    waiting = [(each, lengths.remaining_s(each.kind, 0)) for each in queue]
    draws = max(MIN_DRAWS, min(MAX_DRAWS, MAX_KERNELS_DRAWN // (len(holding) + len(queue))))
    chance = Random(queue[-1].id.int)  # noqa: S311 -- nothing secret
    drawn = [_draw(chance, waiting, holding, free) for _ in range(draws)]
    return {
        each.id: _range_of(sorted(starts), no_later_s.get(each.id))
        for each, starts in zip(queue, zip(*drawn, strict=True), strict=True)
    }


def _range_of(starts: Sequence[float], no_later_s: float | None) -> StartRange | None:
    """Return the range of the sorted starts of all draws."""
    early, late = starts[int(EARLY * len(starts))], starts[ceil(LATE * len(starts)) - 1]
    if no_later_s is not None:
        early, late = min(early, no_later_s), min(late, no_later_s)
    if early == inf:
        return None
    return StartRange(int(early), None if late == inf else ceil(late))


_Queue = Sequence[tuple[QueuedSession, list[float]]]


def _draw(
    chance: Random,
    queue: _Queue,
    holding: Sequence[tuple[AllocatedKernel, list[float]]],
    free: Mapping[int, Slots],
) -> list[float]:
    """Return in how many seconds each session of the queue starts in one random draw."""
    ends: dict[int, list[tuple[float, int, Slots]]] = {}
    for number, (each, left) in enumerate(holding):
        heappush(
            ends.setdefault(each.agent_id, []), (_drawn(chance, left, each.max_left_s), number, each.slots)
        )
    rooms = {agent_id: dict(slots) for agent_id, slots in free.items()}
    starts, number = [], len(holding)
    for wanted, left in queue:
        placed: list[tuple[float, int]] = []
        for _ in range(wanted.kernels):
            used = [agent_id for _begin, agent_id in placed] if wanted.is_spread else []
            placed.append(_take(wanted, used, rooms, ends))
        at = max(begin for begin, _agent in placed)
        starts.append(at)
        if at == inf:
            continue
        end = at + _drawn(chance, left, wanted.max_runtime_s)
        for _begin, agent_id in placed:
            number += 1
            heappush(ends.setdefault(agent_id, []), (end, number, wanted.slots))
    return starts


def _drawn(chance: Random, left: list[float], most_s: float | None) -> float:
    """Draw a run time. Without similar sessions: zero or the time limit, so that the range covers
    all between; infinite without a limit.
    """
    if most_s is None:
        return chance.choice(left) if left else inf
    return min(chance.choice(left or (0.0, most_s)), most_s)


def _take(
    wanted: QueuedSession,
    used: Collection[int],
    rooms: dict[int, dict[str, int]],
    ends: dict[int, list[tuple[float, int, Slots]]],
) -> tuple[float, int]:
    """Return the earliest start and its agent, and take the capacity there; allocations that end by
    then are removed.
    """
    begin, chosen = inf, -1
    for agent_id in wanted.agent_ids:
        if agent_id in used:
            continue
        when = _free_after_s(wanted.slots, rooms[agent_id], ends.get(agent_id, ()), begin)
        for start, end in wanted.blocked.get(agent_id, ()):
            when = end if start <= when < end else when
        if when < begin:
            begin, chosen = when, agent_id
            if not when:
                break
    if begin < inf:
        room = rooms[chosen]
        while ends.get(chosen) and ends[chosen][0][0] <= begin:
            for name, amount in heappop(ends[chosen])[2].items():
                room[name] = room.get(name, 0) + amount
        for name, amount in wanted.slots.items():
            room[name] = room.get(name, 0) - amount
    return begin, chosen


def _free_after_s(
    slots: Slots, room: Mapping[str, int], ends: Sequence[tuple[float, int, Slots]], before: float
) -> float:
    """Seconds until so much is free on an agent; infinite if not earlier than `before`."""
    short = {name: amount - room.get(name, 0) for name, amount in slots.items() if amount > room.get(name, 0)}
    if not short:
        return 0.0
    for at, _number, released in sorted(ends):
        if at >= before:
            break
        short = {name: rest for name, amount in short.items() if (rest := amount - released.get(name, 0)) > 0}
        if not short:
            return at
    return inf
