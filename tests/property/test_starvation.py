"""Laws of waiting under a constant stream of small sessions: large ones start in bounded time.

Each minute some come, some end (at their time or before) and a tick decides. Promises are counted in LONGEST, the longest that
anything runs: what whoever is first in the line needs is there after that, for nothing that passes it makes it start later
(`test_accelerators`). So they hold where the line, once somebody is in it, only moves on.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import cycle, islice
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.values.resources import ResourceSlots
from scheduler.engine import (
    Gang,
    PendingSession,
    Placement,
    Planner,
    Policy,
    Requirements,
    Rules,
    Snapshot,
    Tenant,
    plan,
)
from tests.property.test_accelerators import NOW, Held, World, at

pytestmark = pytest.mark.walk

LONGEST, MINUTES = 6, 48
HIGHEST = 2
HALF_LIFE = 20
"""Of what was held lately, in minutes."""
OWNERS = ("ann", "bea", "cem")
SAME = st.just(0)
PARTS = st.sampled_from([250, 400, 500, 600, 750, 1000, 1000])


@dataclass(frozen=True)
class Asked:
    """`is_told`: how long it lasts."""

    amount: int
    cores: int
    lasts: int
    owner: str = "dov"
    priority: int = 0
    kernels: int = 1
    gang: Gang = Gang.ANYWHERE
    is_told: bool = True

    @property
    def slots(self) -> ResourceSlots:
        return ResourceSlots({"cpu": self.cores * 1000, "gpu": self.amount})

    def session(self, number: int, minute: int) -> PendingSession:
        return PendingSession(
            id=UUID(int=number),
            enqueued_at=at(minute),
            requirements=Requirements("x86_64", (self.slots,) * self.kernels, gang=self.gang),
            kernel_ids=tuple(UUID(int=number * 100 + index) for index in range(self.kernels)),
            priority=self.priority,
            tenants=(f"domain of {self.owner}", f"project of {self.owner}", self.owner),
            max_runtime=timedelta(minutes=self.lasts) if self.is_told else None,
        )


@dataclass(frozen=True)
class Stream:
    """On machines that begin empty small ones come again and again, `at_once` a minute while fewer than `most` wait, and large ones at
    their minutes. `early`: every so many-th container ends before its time. `cancelled_at`: all who wait then are cancelled."""

    world: World
    small: tuple[Asked, ...]
    large: tuple[tuple[int, Asked], ...]
    at_once: int = 3
    most: int = 6
    early: int = 0
    cancelled_at: int | None = None


@dataclass(slots=True)
class Life:
    """`others`: how many others wait, by minute; when it comes, of those before it."""

    session: PendingSession
    lasts: int
    came: int
    others: dict[int, int] = field(default_factory=dict)
    started: int | None = None

    @property
    def ends(self) -> int:
        assert self.started is not None
        return self.started + self.lasts

    def demand_started(self, latest: int) -> None:
        """Where that is within the play."""
        assert latest >= MINUTES or (self.started is not None and self.started <= latest), (self, latest)


class Play:
    """Minute by minute, by one planner, as in a worker."""

    def __init__(self, stream: Stream, rules: Rules) -> None:
        self.lives: dict[UUID, Life] = {}
        self._stream, self._rules = stream, rules
        self._waiting: list[PendingSession] = []
        self._running: list[tuple[Held, PendingSession]] = []
        self._lately: dict[str, float] = defaultdict(float)
        self._planner = Planner()
        self._told_first: tuple[UUID, ...] = ()
        self.heads: dict[UUID, int] = {}  # since when, of all who were

    def all_lives(self) -> list[Life]:
        stream, coming = self._stream, cycle(self._stream.small)
        for minute in range(MINUTES):
            self._end(minute)
            if minute == stream.cancelled_at:
                self._waiting.clear()
            large = [asked for when, asked in stream.large if when == minute]
            room = min(stream.at_once, stream.most - len(self._waiting)) - len(large)
            self._come(minute, [*large, *islice(coming, max(0, room))])
            self._tick(minute)
        return list(self.lives.values())

    def _end(self, minute: int) -> None:
        early = self._stream.early
        self._running = [
            (held, session)
            for number, (held, session) in enumerate(self._running)
            if self.lives[session.id].ends > minute
            if not (early and (minute + number) % early == 0)
        ]

    def _come(self, minute: int, asked: Sequence[Asked]) -> None:
        for session in self._waiting:
            self.lives[session.id].others[minute] = len(self._waiting) + len(asked) - 1
        for each in asked:
            session = each.session(len(self.lives) + 1, minute)
            self.lives[session.id] = Life(session, each.lasts, minute, {minute: len(self._waiting)})
            self._waiting.append(session)

    def _tick(self, minute: int) -> None:
        world = replace(self._stream.world, held=tuple(held for held, _ in self._running))
        ranks = {session_id: rank for rank, session_id in enumerate(self._told_first, 1)}
        waiting = tuple(replace(each, head_rank=ranks.get(each.id, 0)) for each in self._waiting)
        told = Snapshot(1, "lab", 0, world.agents(), waiting, self._rules, tenants=self._tenants(world))
        decided = self._planner.plan(told, at(minute))
        self._told_first = decided.heads
        for session_id in decided.heads:
            self.heads.setdefault(session_id, minute)
        given = world.after(decided, minute).held[len(world.held) :]
        for held, session in zip(given, _of_each_kernel(decided.placements), strict=True):
            self._running.append((held, session))
            self.lives[session.id].started = minute
        self._waiting = [each for each in self._waiting if self.lives[each.id].started is None]

    def _tenants(self, world: World) -> dict[str, Tenant]:
        total = sum((agent.capacity for agent in world.agents()), ResourceSlots())
        held: dict[str, ResourceSlots] = defaultdict(ResourceSlots)
        for each, session in self._running:
            for tenant in session.tenants:
                held[tenant] += each.slots
        left = 0.5 ** (1 / HALF_LIFE)
        for tenant in {*held, *self._lately}:
            share = max(held[tenant][name] / total[name] for name in total)
            self._lately[tenant] = left * self._lately[tenant] + (1 - left) * share
        return {
            tenant: Tenant(allocated=held[tenant], past_share=lately)
            for tenant, lately in self._lately.items()
        }


def _of_each_kernel(placements: Sequence[Placement]) -> Iterator[PendingSession]:
    for placement in placements:
        for _ in placement.agent_ids:
            yield placement.session


@st.composite
def streams(
    draw: st.DrawFn,
    priorities: st.SearchStrategy[int] = SAME,
    *,
    owner: str = "",
    machines: int = 3,
    at_once: int = 3,
    most_large: int = 2,
    is_cancelled: bool = False,
) -> Stream:
    """All of it would find room if nothing else ran. `owner`: of what is large."""
    sizes = tuple(draw(st.lists(st.sampled_from([1, 2, 2, 3, 4, 0]), min_size=1, max_size=machines)))
    empty = World(sizes, (), tuple(draw(st.sampled_from([8, 16])) for _ in sizes))
    lasts, owners = st.integers(1, LONGEST), st.sampled_from(OWNERS)
    changes = {"lasts": lasts, "owner": st.just(owner) if owner else owners, "priority": priorities}
    large = st.builds(replace, st.sampled_from(wide(empty)), **changes)
    whens = st.tuples(st.integers(1, 9), large)
    found = draw(st.lists(whens, min_size=1, max_size=most_large, unique_by=lambda each: each[0]))
    small = st.builds(Asked, PARTS, st.sampled_from([1, 1, 2]), lasts, owners, priorities)
    return Stream(
        empty,
        tuple(draw(st.lists(small, min_size=1, max_size=6))),
        tuple(found),
        draw(st.integers(1, at_once)),
        most=draw(st.integers(2, 6)),
        early=draw(st.sampled_from([0, 0, 5, 7])),
        cancelled_at=found[0][0] if is_cancelled else None,
    )


def wide(empty: World) -> list[Asked]:
    """Of all cores or devices of a machine, on several machines at once, and of all devices that there are."""
    devices = [size or 2 for size in empty.sizes]
    found = [
        Asked(250, max(empty.cores), 1),
        Asked(max(devices) * 1000, 1, 1),
        Asked(1000, 1, 1, kernels=len(devices), gang=Gang.SPREAD),
        Asked(1000, 1, 1, kernels=sum(devices)),
        Asked(500, 2, 1, kernels=max(devices), gang=Gang.ONE_MACHINE),
    ]
    return [each for each in found if fits(empty, each)]


def fits(empty: World, asked: Asked) -> bool:
    told = Snapshot(1, "lab", 0, empty.agents(), (asked.session(1, 0),))
    return bool(plan(told, NOW).placements)


@given(streams())
def test_fifo_wait_is_bounded_by_run_times_ahead(stream):
    """Those who wait when it comes start one after the other at the worst, each after LONGEST at the latest."""
    for life in Play(stream, Rules()).all_lives():
        life.demand_started(life.came + (life.others[life.came] + 1) * LONGEST)


SMALL = Asked(500, 1, LONGEST)
ON_ONE, ON_THE_OTHER = Asked(4000, 1, LONGEST), Asked(250, 16, LONGEST, priority=1)


@given(streams(st.integers(0, HIGHEST)), st.integers(1, 9))
@example(Stream(World((4, 1), (), (8, 16)), (SMALL,), ((10, ON_ONE), (11, ON_THE_OTHER)), most=3), 2)
def test_first_in_first_out_waiting_brings_everybody_to_the_front(stream, ageing):
    """Nobody passes who comes later by what the priorities differ. Those who wait by then, or come, start one after the other, as above."""
    for life in Play(stream, Rules(ageing=timedelta(minutes=ageing))).all_lives():
        closed_at = life.came + (HIGHEST - life.session.priority) * ageing
        if closed_at in life.others:
            life.demand_started(closed_at + (life.others[closed_at] + 1) * LONGEST)


@pytest.mark.parametrize("policy", Policy)
@given(streams(at_once=1))
def test_whatever_the_policy_waiting_brings_everybody_to_the_front_where_it_counts_from_one_to_the_next(
    policy, stream
):
    """One comes a minute at most and each minute raises by one, so all are first in, first out. Of the last come first nothing more is
    promised: without ageing the newest always passes."""
    for life in Play(stream, Rules(policy=policy, ageing=timedelta(minutes=1))).all_lives():
        life.demand_started(life.came + (life.others[life.came] + 1) * LONGEST)


ON_ONE_OR_THE_OTHER = Asked(1000, 1, 4, owner="bea"), Asked(500, 1, 4, owner="ann")
OF_EACH = (5, replace(ON_ONE, owner="ann")), (6, replace(ON_THE_OTHER, owner="bea", priority=0))
TAKING_TURNS = Stream(World((4, 1), (), (8, 16)), ON_ONE_OR_THE_OTHER, OF_EACH, at_once=2, most=3)
"""Were it not for heads: in turn either owner has less."""


OF_TWO_PRIORITIES = Stream(World((4, 1), (), (8, 16)), (SMALL,), ((10, ON_ONE), (11, ON_THE_OTHER)), most=3)


@pytest.mark.parametrize("policy", [Policy.LIFO, Policy.DRF, Policy.FAIR_SHARE])
@given(streams(most_large=4))
@example(TAKING_TURNS)
def test_session_with_reservation_is_tried_first_until_it_starts(policy, stream):
    play = Play(stream, Rules(policy=policy))
    lives = {life.session.id: life for life in play.all_lives()}
    for session_id, since in play.heads.items():
        lives[session_id].demand_started(since + LONGEST)


@pytest.mark.parametrize("policy", Policy)
def test_sessions_aged_at_different_times_do_not_alternate(policy):
    """Whoever got before the other stays there when that one is raised, too."""
    lives = Play(OF_TWO_PRIORITIES, Rules(policy=policy, ageing=timedelta(minutes=2))).all_lives()
    large = [life for life in lives if life.session.requirements.kernels[0] != SMALL.slots]
    assert len(large) == 2
    for life in large:
        life.demand_started(life.came + 3 * LONGEST)


@given(streams(owner="dov", most_large=1))
def test_fair_share_tenant_without_use_is_not_passed_by_later_ones(stream):
    """Nor for those who wait and had something; those who had nothing go one after the other."""
    for life in Play(stream, Rules(policy=Policy.FAIR_SHARE)).all_lives():
        if life.session.tenants[-1] == "dov":
            life.demand_started(life.came + (life.others[life.came] + 1) * LONGEST)


@given(streams(owner="dov", most_large=1, is_cancelled=True))
def test_drf_tenant_without_allocation_is_not_passed_by_later_ones(stream):
    """Nobody else waits when it comes."""
    for life in Play(stream, Rules(policy=Policy.DRF)).all_lives():
        if life.session.tenants[-1] == "dov":
            life.demand_started(life.came + LONGEST)


@given(streams(machines=1), st.sets(st.integers(0, 7)), st.booleans(), st.integers(0, 9))
def test_unknown_run_times_lead_to_a_reservation_after_a_long_wait(stream, silent, is_told, patience):
    """On one machine: of several it is kept where least is missing, and another may come to be that, each time with less."""
    small = tuple(replace(each, is_told=number not in silent) for number, each in enumerate(stream.small))
    large = tuple((when, replace(each, is_told=is_told)) for when, each in stream.large)
    rules = Rules(patience=timedelta(minutes=patience))
    for life in Play(replace(stream, small=small, large=large), rules).all_lives():
        life.demand_started(life.came + patience + (life.others[life.came] + 1) * LONGEST)
