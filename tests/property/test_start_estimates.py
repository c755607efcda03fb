"""Estimates of starts are right often enough, on clusters filled by the engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from random import Random
from uuid import UUID

import pytest

from common.values.resources import ResourceSlots
from scheduler.engine import AgentView, PendingSession, Requirements, Snapshot, plan
from scheduler.snapshot.start_time_model import (
    MAX_AHEAD,
    AllocatedKernel,
    QueuedSession,
    RunLengths,
    estimate_each,
)
from sessions_app.core.start_estimate import StartRange

NOW = datetime(2027, 1, 1, tzinfo=UTC)
CORES = 8000
KIND = (1, 2, "batch")


def estimate(
    wanted: QueuedSession,
    ahead: Sequence[QueuedSession],
    held: Sequence[AllocatedKernel],
    free: Mapping[int, Mapping[str, int]],
    lengths: RunLengths,
    *,
    no_later_s: float | None = None,
) -> StartRange | None:
    """Estimate the start of one session behind those `ahead`; None if they are too many."""
    if len(ahead) > MAX_AHEAD:
        return None
    no_later = {} if no_later_s is None else {wanted.id: no_later_s}
    return estimate_each([*ahead, wanted], held, free, lengths, no_later_s=no_later)[wanted.id]


@dataclass
class Cluster:
    """Sessions of three kinds come, wait, run as long as chance says, and end."""

    chance: Random
    agents: int = 6
    seen: dict[tuple[int, int, str], list[float]] = field(default_factory=dict)
    running: dict[UUID, tuple[int, ResourceSlots, tuple[int, int, str], float]] = field(default_factory=dict)
    pending: dict[UUID, tuple[PendingSession, tuple[int, int, str]]] = field(default_factory=dict)
    told: dict[UUID, tuple[float, StartRange | None]] = field(default_factory=dict)
    outcomes: list[tuple[float, float, StartRange | None]] = field(default_factory=list)

    def length(self, kind: tuple[int, int, str]) -> float:
        return self.chance.lognormvariate(7 + kind[1] / 2, 0.8)

    def run(self, sessions: int) -> None:
        news: list[tuple[float, str, UUID]] = []
        at = 0.0
        for number in range(sessions):
            at += self.chance.expovariate(1 / 190)
            heappush(news, (at, "comes", UUID(int=number + 1)))
        while news:
            at, what, key = heappop(news)
            if what == "comes":
                kind = (self.chance.randrange(3), self.chance.randrange(2), "batch")
                slots = ResourceSlots({"cpu": self.chance.choice((1000, 2000, 4000, 8000))})
                session = PendingSession(
                    key, NOW + timedelta(seconds=at), Requirements("x", (slots,)), (key,)
                )
                self.pending[key] = (session, kind)
            else:
                _agent, _slots, kind, began = self.running.pop(key)
                self.seen.setdefault(kind, []).append(at - began)
            self.tick(at, news)

    def tick(self, at: float, news: list[tuple[float, str, UUID]]) -> None:
        free = dict.fromkeys(range(self.agents), CORES)
        for agent_id, slots, _kind, _began in self.running.values():
            free[agent_id] -= slots["cpu"]
        capacity = ResourceSlots({"cpu": CORES})
        views = tuple(
            AgentView(number, "x", capacity, ResourceSlots({"cpu": room})) for number, room in free.items()
        )
        waiting = tuple(session for session, _ in self.pending.values())
        decided = plan(Snapshot(1, "g", 1, views, waiting), NOW + timedelta(seconds=at))
        for placement in decided.placements:
            session, kind = self.pending.pop(placement.session.id)
            self.running[session.id] = (placement.agent_ids[0], session.requirements.total, kind, at)
            heappush(news, (at + self.length(kind), "ends", session.id))
            if session.id in self.told:
                asked_at, said = self.told.pop(session.id)
                self.outcomes.append((asked_at, at, said))
        if sum(map(len, self.seen.values())) > 100:
            for index, deferral in enumerate(decided.deferrals):
                if deferral.session_id not in self.told:
                    ids = [each.session_id for each in decided.deferrals[: index + 1]]
                    self.told[deferral.session_id] = (at, self.ask(ids, at))

    def ask(self, ids: list[UUID], at: float) -> StartRange | None:
        free = {number: {"cpu": CORES} for number in range(self.agents)}
        held = []
        for agent_id, slots, kind, began in self.running.values():
            free[agent_id]["cpu"] -= slots["cpu"]
            held.append(AllocatedKernel(agent_id, slots, kind, at - began))
        queue = [
            QueuedSession(
                key, self.pending[key][0].requirements.total, 1, range(self.agents), self.pending[key][1]
            )
            for key in ids
        ]
        return estimate(queue[-1], queue[:-1], held, free, RunLengths(self.seen))


@pytest.mark.parametrize("seed", range(3))
def test_most_sessions_start_within_their_estimate(seed: int) -> None:
    cluster = Cluster(Random(seed))
    cluster.run(400)
    told = [(begin - asked, said) for asked, begin, said in cluster.outcomes if said is not None]
    held = [said.earliest_s <= waited <= (said.latest_s or 1e9) for waited, said in told]
    not_late = [waited <= (said.latest_s or 1e9) for waited, said in told]
    assert len(told) > 50
    assert sum(held) / len(told) > 0.75
    assert sum(not_late) / len(told) > 0.75


def test_what_never_ends_is_unknown_and_limits_bound_the_rest() -> None:
    slots, hosts = {"cpu": 8000}, {7: {"cpu": 0}}
    wanted = QueuedSession(UUID(int=1), slots, 1, (7,), KIND)
    held = AllocatedKernel(7, slots, KIND, 100.0)
    assert estimate(wanted, (), [held], hosts, RunLengths({})) is None
    limited = replace(held, max_left_s=50.0)
    assert estimate(wanted, (), [limited], hosts, RunLengths({})) == StartRange(0, 50)
    ahead = [QueuedSession(UUID(int=2), slots, 1, (7,), KIND, max_runtime_s=20.0)]
    assert estimate(wanted, ahead, [limited], hosts, RunLengths({})) == StartRange(0, 70)
    seen = RunLengths({KIND: [150.0] * 5, (9, 2, "batch"): [90.0]})
    assert estimate(wanted, (), [held], hosts, seen) == StartRange(50, 50)
    assert estimate(wanted, (), [held], hosts, seen, no_later_s=30.0) == StartRange(30, 30)
    others = RunLengths({(9, 2, "batch"): [150.0] * 5})
    assert estimate(wanted, (), [held], hosts, others) == StartRange(50, 50)


def test_unplaceable_sessions_ahead_delay_nobody_and_gangs_wait_for_their_last_kernel() -> None:
    blocked = QueuedSession(UUID(int=2), {"gpu": 1}, 1, (7,), KIND)
    gang = QueuedSession(UUID(int=1), {"cpu": 4}, 2, (7, 8), KIND)
    held = [AllocatedKernel(7, {"cpu": 4}, KIND, 0, 10.0), AllocatedKernel(8, {"cpu": 4}, KIND, 0, 40.0)]
    hosts = {7: {"cpu": 0}, 8: {"cpu": 0}}
    assert estimate(gang, [blocked], held, hosts, RunLengths({})) == StartRange(0, 40)


def test_containers_that_are_spread_wait_for_a_machine_each() -> None:
    gang = QueuedSession(UUID(int=1), {"cpu": 4}, 2, (7, 8), KIND, is_spread=True)
    held = [AllocatedKernel(8, {"cpu": 4}, KIND, 0, 40.0)]
    hosts = {7: {"cpu": 8}, 8: {"cpu": 0}}
    assert estimate(gang, (), held, hosts, RunLengths({})) == StartRange(0, 40)
    assert estimate(replace(gang, is_spread=False), (), held, hosts, RunLengths({})) == StartRange(0, 0)
    assert estimate(replace(gang, kernels=3), (), held, hosts, RunLengths({})) is None


def test_ranges_are_said_in_words() -> None:
    said = [
        StartRange(0, 40),
        StartRange(840, 2400),
        StartRange(3600, None),
        StartRange(0, None),
        StartRange(90, 110),
    ]
    assert [each.words for each in said] == [
        "It will probably start within 1 min.",
        "It will probably start in 14 min to 40 min.",
        "It will probably not start before 1 h; how long it may take is unknown.",
        "It may start at any moment; how long it may take is unknown.",
        "It will probably start in 1 min to 2 min.",
    ]
