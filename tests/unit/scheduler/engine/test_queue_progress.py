"""Groups simulated minute by minute: the first session starts in time, whatever comes behind."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from scheduler.engine import (
    AgentView,
    Gang,
    PendingSession,
    Quota,
    ReservationWindow,
    Rules,
    RunningAllocation,
    Snapshot,
    plan,
)
from tests.unit.scheduler.engine.test_backfill import CAPACITY, NOW, agent, at, cores, session

PROJECT = "project:1"
RULES = Rules(patience=timedelta(minutes=10))


@dataclass
class Played:
    """Machines of 8 cores, on which `held` (machine, cores, until which minute) runs at first; each minute those are decided that wait."""

    held: list[tuple[int, int, int]]
    waiting: list[PendingSession]
    machines: tuple[int, ...] = (1,)
    window: ReservationWindow | None = None
    limit: int | None = None
    gone: tuple[AgentView, ...] = ()
    started: dict[int, int] = field(default_factory=dict)  # by session, in which minute

    def play(self, minutes: int, come: Callable[[int], PendingSession]) -> None:
        """`come`: who comes in that minute, while few wait."""
        for minute in range(minutes):
            self.held = [each for each in self.held if each[2] > minute]
            if len(self.waiting) < 8:
                self.waiting.append(come(minute))
            self._decide(minute)

    def _decide(self, minute: int) -> None:
        agents = (*(self._machine(number) for number in self.machines), *self.gone)
        use = cores(sum(count for _, count, _ in self.held))
        limits = () if self.limit is None else (_limit(self.limit, use),)
        decided = plan(Snapshot(1, "lab", 0, agents, tuple(self.waiting), RULES, limits), at(minute))
        for asked, agent_ids in decided.placements:
            self.started[asked.id.int] = minute
            lasts = 10_000 if asked.max_runtime is None else int(asked.max_runtime.total_seconds() // 60)
            for machine, slots in zip(agent_ids, asked.requirements.kernels, strict=True):
                self.held.append((machine, slots["cpu"] // 1000, minute + lasts))
        self.waiting = [each for each in self.waiting if each.id.int not in self.started]

    def _machine(self, number: int) -> AgentView:
        here = [(count, until) for machine, count, until in self.held if machine == number]
        running = tuple(RunningAllocation(cores(count), at(until)) for count, until in here)
        free = cores(CAPACITY - sum(count for count, _ in here))
        return AgentView(number, "x86_64", cores(CAPACITY), free, running=running, next_window=self.window)


def _limit(most: int, held: object) -> Quota:
    return Quota(PROJECT, "project", "its name", cores(most), held)  # type: ignore[arg-type]


def small_ones(*kinds: tuple[int, int]) -> Callable[[int], PendingSession]:
    """So many cores for so many minutes, in turns."""

    def come(minute: int) -> PendingSession:
        count, minutes = kinds[minute % len(kinds)]
        return replace(session(100 + minute, count, minutes=minutes), enqueued_at=at(minute))

    return come


@pytest.mark.parametrize("gang", [Gang.SPREAD, Gang.ANYWHERE])
def test_a_gang_of_unlike_containers_starts_when_it_would_alone(gang: Gang):
    """Where room was looked for as if all were as large as the largest, and less was kept, others took the difference: it was put off for ever."""
    played = Played([(1, 3, 5), (2, 2, 6)], [session(1, 8, 4, minutes=5, gang=gang)], machines=(1, 2))
    played.play(30, small_ones((1, 2), (2, 8), (1, 3)))
    assert played.started[1] == 5


def test_one_that_has_to_wait_for_a_reservation_to_end_takes_no_turn_of_a_shorter_one():
    long = session(1, 8)
    short = replace(session(2, 8, minutes=20), requirements=long.requirements)
    window = ReservationWindow(5, at(24 * 60), at(48 * 60))
    played = Played([(1, 4, 5)], [long, short], window=window)
    played.play(40, small_ones((4, 9)))
    assert (played.started[2], 1 in played.started) == (9, False)


def test_first_session_short_enough_gets_the_reservation():
    """Each is shorter than those before it; one without a limit counts as a week."""
    needs, days = session(1, 8).requirements, 24 * 60
    unlimited = replace(session(2, 8), requirements=needs)
    waiting = [
        replace(session(number, 8, minutes=10 * days - number), requirements=needs)
        for number in range(3, 300)
    ]
    machine = replace(agent(1, (8, 30)), next_window=ReservationWindow(5, at(8 * days), at(9 * days)))
    for first in ([], [unlimited]):
        pending = (*first, *waiting, replace(session(300, 8, minutes=60), requirements=needs))
        decided = plan(Snapshot(1, "lab", 0, (machine,), pending, Rules()), NOW)
        kept = [each.session_id.int for each in decided.reservations]
        assert kept == ([2] if first else [300])


def test_gangs_that_begin_together_before_a_reservation_are_tried_so_often_and_no_more():
    """Each container alone would have the time, on machines that are not free at the same time."""
    needs = session(1, 8, 8, gang=Gang.SPREAD).requirements
    soon = replace(agent(1, (8, 5)), next_window=ReservationWindow(5, at(70), at(200)))
    late = replace(agent(2, (8, 60)), next_window=ReservationWindow(5, at(130), at(200)))
    pending = tuple(
        replace(session(number, 8, 8, minutes=60 - number, gang=Gang.SPREAD), requirements=needs)
        for number in range(1, 20)
    )
    decided = plan(Snapshot(1, "lab", 0, (soon, late), pending, Rules()), NOW)
    assert decided.reservations == ()


@pytest.mark.parametrize(
    "never",
    [
        session(1, 5, designated=9),
        session(1, 9),
        session(1, 3, 3, gang=Gang.SPREAD),
        session(1, 5, 5),
    ],
)
def test_for_one_that_cannot_run_no_limit_gathers(never: PendingSession):
    """Its machine takes no sessions, or none is large enough, or there are too few."""
    closed = replace(AgentView(9, "x86_64", cores(16), cores(16)), is_schedulable=False)
    first = replace(never, scopes=(PROJECT,))
    played = Played([(1, 2, 25), (1, 2, 3)], [first], limit=6, gone=(closed,))

    def come(minute: int) -> PendingSession:
        return replace(small_ones((2, 5))(minute), scopes=(PROJECT,))

    played.play(40, come)
    assert max(played.started.values()) > 35, "others of its project go on starting"
