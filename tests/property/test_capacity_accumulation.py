"""Laws of accumulating capacity whose release time is unknown."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.values.resources import ResourceSlots
from scheduler.engine import (
    Accumulation,
    AgentView,
    PendingSession,
    Planner,
    Quota,
    Requirements,
    Rules,
    RunningAllocation,
    Snapshot,
)
from scheduler.engine.capacity.accumulation import MAX_FIRST_DURATION
from scheduler.snapshot.start_time_model import MIN_SAMPLES, RunLengths

pytestmark = pytest.mark.walk

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CORES, PATIENCE, COMES, LONGEST = 8000, 5, 12, 6
BOUND = PATIENCE + 8 * LONGEST
KIND = (1, 2, "interactive")
WHOLE, PART, LITTLE = (ResourceSlots({"cpu": cores}) for cores in (CORES, 2000, 500))


@dataclass(frozen=True)
class Turning:
    """`endless`: by machine, since when something small runs there that never ends; None: nothing. `lengths`: of those that come again and
    again, of which nobody knows how long they run. `lost_at`: when machines are lost, by number. `seen`: how long sessions like all of these ran
    lately."""

    endless: tuple[int | None, ...]
    lengths: tuple[int, ...]
    lost_at: tuple[tuple[int, int], ...] = ()
    seen: tuple[int, ...] = ()


@dataclass
class Life:
    agent_id: int
    slots: ResourceSlots
    began: int
    ends: int | None


class Play:
    """Minute by minute; `chosen` are all choices that were made for the large one, `placed` is when it started."""

    def __init__(self, turning: Turning, kernels: int = 1) -> None:
        self._turning = turning
        self._large = self._session(1, WHOLE, COMES, kernels)
        self._lives = [
            Life(number, LITTLE, -since, None)
            for number, since in enumerate(turning.endless, 1)
            if since is not None
        ]
        self._waiting: list[PendingSession] = []
        self._number = 1
        self._planner = Planner()
        self._seen = RunLengths({KIND: [minutes * 60.0 for minutes in turning.seen]})
        self._gathered: dict[UUID, Accumulation] = {}  # as the last plan said
        self.chosen: list[Accumulation] = []
        self.placed: int | None = None

    def until(self, minutes: int) -> "Play":
        for minute in range(minutes):
            self._lives = [each for each in self._lives if each.ends is None or each.ends > minute]
            if minute == COMES:
                self._waiting.append(self._large)
            while len(self._waiting) < 4 + (minute >= COMES):
                self._number += 1
                self._waiting.append(self._session(self._number, PART, minute))
            self._tick(minute)
            if self.placed is not None:
                break
        return self

    def _tick(self, minute: int) -> None:
        agents = tuple(self._agent(number, minute) for number in range(1, len(self._turning.endless) + 1))
        told = tuple(replace(each, accumulation=self._gathered.get(each.id)) for each in self._waiting)
        rules = Rules(patience=timedelta(minutes=PATIENCE))
        decided = self._planner.plan(Snapshot(1, "lab", 0, agents, told, rules), at(minute))
        self._gathered = {each.session_id: each for each in decided.accumulations}
        of_large = [each for each in decided.accumulations if each.session_id == self._large.id]
        self.chosen += [each for each in of_large if each not in self.chosen[-1:]]
        placed = {each.session_id: each for each in decided.placements}
        for session in self._waiting:
            for agent_id in placed[session.id].agent_ids if session.id in placed else ():
                length = self._turning.lengths[session.id.int % len(self._turning.lengths)]
                self._lives.append(Life(agent_id, session.requirements.kernels[0], minute, minute + length))
        self.placed = minute if self._large.id in placed else None
        self._waiting = [each for each in self._waiting if each.id not in placed]

    def _agent(self, number: int, minute: int) -> AgentView:
        here = [each for each in self._lives if each.agent_id == number]
        capacity = ResourceSlots({"cpu": CORES})
        return AgentView(
            number,
            "x",
            capacity,
            capacity - sum((each.slots for each in here), ResourceSlots()),
            is_schedulable=not any(who == number and when <= minute for who, when in self._turning.lost_at),
            expected_ends=tuple(RunningAllocation(each.slots, self._expected(each, minute)) for each in here),
        )

    def _expected(self, life: Life, minute: int) -> datetime:
        ran_s = (minute - life.began) * 60
        return at(minute) + timedelta(seconds=self._seen.expected_remaining_s(KIND, ran_s))

    def _session(self, number: int, slots: ResourceSlots, minute: int, kernels: int = 1) -> PendingSession:
        ids = tuple(UUID(int=number * 100 + index) for index in range(kernels))
        return PendingSession(UUID(int=number), at(minute), Requirements("x", (slots,) * kernels), ids)


def at(minute: int) -> datetime:
    return NOW + timedelta(minutes=minute)


SINCE = st.none() | st.integers(0, 400)
OF_THE_ISSUE = Turning((30, None, None), (2, 3, 2))
ENDLESS_EVERYWHERE = Turning((3, 40), (2,))


@st.composite
def turnings(draw: st.DrawFn, good: int = 1) -> Turning:
    """On `good` machines at least everything ends; the others may be lost."""
    bad = draw(st.lists(SINCE, min_size=1, max_size=4))
    endless = tuple(draw(st.permutations([*bad, *[None] * good])))
    with_endless = [number for number, since in enumerate(endless, 1) if since is not None]
    lost = st.tuples(st.sampled_from(with_endless), st.integers(COMES, COMES + BOUND))
    return Turning(
        endless,
        tuple(draw(st.lists(st.integers(1, LONGEST), min_size=1, max_size=5))),
        tuple(draw(st.lists(lost, max_size=2))) if with_endless else (),
        tuple(draw(st.just([]) | st.lists(st.integers(1, LONGEST), min_size=MIN_SAMPLES, max_size=9))),
    )


@given(turnings())
@example(OF_THE_ISSUE)
@example(replace(OF_THE_ISSUE, seen=(2,) * MIN_SAMPLES))
@example(Turning((0, None), (LONGEST,)))
def test_whole_agent_session_starts_where_everything_on_one_agent_ends(turning: Turning) -> None:
    play = Play(turning).until(COMES + BOUND)
    assert play.placed is not None, play.chosen


@given(turnings(good=2))
def test_so_does_one_of_several_containers_on_as_many_such_machines(turning: Turning) -> None:
    play = Play(turning, kernels=2).until(COMES + BOUND)
    assert play.placed is not None, play.chosen


@given(turnings())
@example(ENDLESS_EVERYWHERE)
@example(replace(ENDLESS_EVERYWHERE, lost_at=((1, COMES + 20),)))
def test_a_choice_holds_until_it_was_wrong_and_the_next_for_twice_as_long(turning: Turning) -> None:
    chosen = Play(turning).until(COMES + BOUND).chosen
    for before, after in pairwise(chosen):
        was_lost = any(who in before.agent_ids and at(when) <= after.since for who, when in turning.lost_at)
        longer = 1 if was_lost else 2
        assert after.until - after.since >= longer * (before.until - before.since)
        assert was_lost or after.since >= before.until


def test_where_something_never_ends_everywhere_the_estimate_grows_with_what_it_was_wrong_by() -> None:
    play = Play(ENDLESS_EVERYWHERE).until(300)
    assert play.placed is None
    spans = [each.until - each.since for each in play.chosen]
    assert len(spans) > 3
    assert all(after >= 2 * before for before, after in pairwise(spans))


def test_the_first_choice_holds_for_minutes_where_what_runs_has_run_for_weeks() -> None:
    weeks = 30 * 24 * 60
    [first] = Play(Turning((weeks, weeks + 9), (2,))).until(COMES + PATIENCE + 1).chosen
    assert first.until - first.since == MAX_FIRST_DURATION


def test_a_choice_goes_on_where_a_limit_or_the_loss_of_its_machine_came_between() -> None:
    choice = Accumulation(UUID(int=1), (1,), NOW - timedelta(minutes=40), NOW)
    session = PendingSession(
        UUID(int=1), NOW - timedelta(days=1), Requirements("x", (WHOLE,)), (UUID(int=1),)
    )
    session = replace(session, scopes=("p",), accumulation=choice)
    used = tuple(
        AgentView(
            number,
            "x",
            WHOLE,
            WHOLE - LITTLE,
            is_schedulable=number != 1,
            expected_ends=(RunningAllocation(LITTLE, NOW),),
        )
        for number in (1, 2)
    )

    def chosen_within(cores: int) -> tuple[Accumulation, ...]:
        limit = Quota("p", "project", "vision", {"cpu": cores}, {})
        return Planner().plan(Snapshot(1, "lab", 0, used, (session,), quotas=(limit,)), NOW).accumulations

    assert chosen_within(CORES - 1) == (choice,)
    assert chosen_within(CORES) == (Accumulation(session.id, (2,), NOW, NOW + timedelta(minutes=40)),)
