"""Simulate a day of a full cluster: GPU hours of each user, by policy and weights of the group."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID

from common.values.resources import ResourceSlots
from scheduler.engine import AgentView, PendingSession, Planner, Policy, Requirements, Rules, Snapshot, Tenant
from tests.bench.scheduler_engine import ARCHITECTURE, GPU, NOW
from tests.bench.scheduler_workload import SEED

NODES, GPUS_OF_A_NODE = 8, 8
DAY, TICK, HALF_LIFE = timedelta(days=1), timedelta(minutes=2), timedelta(hours=6)
WAITING = 20  # pending sessions of each user, at any time
SIZES = (1, 2, 4, 8)
TOTAL_GPUS = NODES * GPUS_OF_A_NODE
WEIGHTLESS: Mapping[int, float] = {}


@dataclass(slots=True)
class _User:
    """User who submits sessions of one size and similar duration."""

    number: int
    gpus: int
    lasts: timedelta
    weight: float
    held: int = 0
    lately: float = 0.0  # share of all GPUs, as in `DecayedUse`
    gpu_hours: float = 0.0

    @property
    def key(self) -> str:
        return f"user:{self.number}"

    def let_pass(self, span: timedelta) -> None:
        kept = 0.5 ** (span / HALF_LIFE)
        self.lately = self.lately * kept + self.held / TOTAL_GPUS * (1 - kept)
        self.gpu_hours += self.held * (span / timedelta(hours=1))


@dataclass(slots=True)
class _Day:
    users: list[_User]
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))
    free: list[int] = field(default_factory=lambda: [GPUS_OF_A_NODE] * NODES)
    running: list[tuple[timedelta, int, _User]] = field(default_factory=list)  # (end, node, user)
    made: int = 0

    def live(self, policy: Policy) -> None:
        planner, now, waiting = Planner(), timedelta(), {}
        ranks: dict[UUID, int] = {}
        while now < DAY:
            self._end(now)
            for user in self.users:
                mine = [each for each in waiting.values() if each.tenants[-1] == user.key]
                for _ in range(WAITING - len(mine)):
                    asked = self._ask(user, now)
                    waiting[asked.id] = asked
            pending = tuple(replace(each, head_rank=ranks.get(each.id, 0)) for each in waiting.values())
            decided = planner.plan(self._snapshot(policy, pending), NOW + now)
            ranks = {session_id: rank for rank, session_id in enumerate(decided.heads, 1)}
            for placement in decided.placements:
                self._start(placement.agent_ids[0], waiting.pop(placement.session_id), now)
            now += TICK
            for user in self.users:
                user.let_pass(TICK)

    def _end(self, now: timedelta) -> None:
        for ends_at, node, user in self.running:
            if ends_at <= now:
                self.free[node] += user.gpus
                user.held -= user.gpus
        self.running = [each for each in self.running if each[0] > now]

    def _start(self, node: int, session: PendingSession, now: timedelta) -> None:
        user = next(each for each in self.users if each.key == session.tenants[-1])
        self.free[node] -= user.gpus
        user.held += user.gpus
        self.running.append((now + user.lasts * self.chance.uniform(0.5, 1.5), node, user))

    def _ask(self, user: _User, now: timedelta) -> PendingSession:
        self.made += 1
        needs = Requirements(ARCHITECTURE, (ResourceSlots({GPU: 1000 * user.gpus}),))
        identity = UUID(int=self.made)
        return PendingSession(
            identity, NOW + now, needs, (identity,), tenants=("domain:1", "project:1", user.key)
        )

    def _snapshot(self, policy: Policy, waiting: tuple[PendingSession, ...]) -> Snapshot:
        whole = ResourceSlots({GPU: 1000 * GPUS_OF_A_NODE})
        agents = (
            AgentView(node, ARCHITECTURE, whole, ResourceSlots({GPU: 1000 * free}))
            for node, free in enumerate(self.free)
        )
        tenants = {
            user.key: Tenant(user.weight, ResourceSlots({GPU: 1000 * user.held}), user.lately)
            for user in self.users
        }
        return Snapshot(1, "day", 1, tuple(agents), waiting, Rules(policy=policy), tenants=tenants)


def gpu_hours_of_a_day(
    policy: Policy, users: int = 10, weights: Mapping[int, float] = WEIGHTLESS
) -> dict[int, float]:
    """Return the GPU hours of each user, divided by the weight.

    Users differ in session size (one or eight GPUs) and duration (half an hour or two).
    """
    day = _Day(
        [
            _User(
                number,
                SIZES[number % len(SIZES)],
                timedelta(minutes=30 + 90 * (number % 3) / 2),
                weights.get(number, 1.0),
            )
            for number in range(users)
        ]
    )
    day.live(policy)
    return {user.number: user.gpu_hours / user.weight for user in day.users}
