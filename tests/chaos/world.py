"""What the chaos happens to: people under limits that bind, small simulated machines, and engines that fall silent. Each process
of a run makes the same picture of it from the database and Redis."""

import json
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection

from accounts.keypairs import create_keypair
from accounts.models import Domain, KeyPair, Membership, Project, User
from accounts.policies import ResourcePolicy
from agents import services as agent_services
from agents.models import Agent, ResourceGroup, Scheduler
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated import SimulatedRuntime
from agents.runtime.simulated_shelf import shared_shelf
from agents.simulation import Shape, add_simulated_agents
from agents.tasks import heartbeat_agents
from common import dispatch
from common.actors import SYSTEM, Actor, ActorKind
from common.dispatch import TaskName
from common.redis import client
from images.models import ContainerImage
from portal.celery import app as celery
from portal.simulation import actor_of
from sessions_app import reconcile, tasks

DOMAINS, PROJECTS, PEOPLE = 2, 6, 24
AGENTS_PER_GROUP = 8
SHAPE = Shape(cores=16, mem_gib=64, gpus=4)
LIMITS = {
    "sessions": {"domain": (30, 80), "project": (12, 40), "user": (3, 12), "keypair": (2, 8)},
    "pending_sessions": {"domain": (20, 60), "project": (8, 30), "user": (2, 9), "keypair": (1, 6)},
    "slots.cpu": {
        "domain": (60_000, 200_000), "project": (20_000, 90_000), "user": (6_000, 40_000), "keypair": (4_000, 30_000),
    },
    "slots.gpu": {"domain": (15_000, 50_000), "project": (4_000, 24_000), "user": (1_000, 10_000), "keypair": (1_000, 8_000)},
    "pending_slots.cpu": {
        "domain": (40_000, 150_000), "project": (16_000, 70_000), "user": (8_000, 30_000), "keypair": (4_000, 20_000),
    },
}  # fmt: skip
LEVELS = ("domain", "project", "user", "keypair")
WITH_TOKEN = 3  # every so many-th person also has a token
"""From … to, by level; a slot in base units."""
SILENT_FOR_S = 8
QUICK = timedelta(seconds=3)
LOOKED_EVERY_S = 0.5
SERVED = frozenset(
    {
        TaskName.TICK, TaskName.PLACE_NEWCOMERS, TaskName.LAUNCH_SESSION, TaskName.LAUNCH_SESSIONS,
        TaskName.TERMINATE_SESSION, TaskName.TERMINATE_SESSIONS, TaskName.SETTLE_DEPENDENTS,
        TaskName.RELEASE_ELEMENTS,
    }
)  # fmt: skip
"""Tasks that are done by the processes of a run."""
LEFT_OUT = frozenset({TaskName.FOLLOW_RULES, TaskName.MAIL_NOTIFICATIONS})
"""Tasks that may be sent and are not done here, on purpose: rules of members and mail are no part of a run."""


class ChaosRuntime(SimulatedRuntime):
    """Shares what it has with all processes, and is silent while somebody says so in Redis."""

    silent: frozenset[str] = frozenset()
    looked_at = 0.0

    @property
    def answers(self) -> bool:
        now = time.monotonic()
        if now - ChaosRuntime.looked_at > LOOKED_EVERY_S:
            ChaosRuntime.looked_at = now
            found = client().scan_iter(match=f"{silence_key('')}*")
            ChaosRuntime.silent = frozenset(key.decode() for key in found)
        return silence_key(self.name) not in ChaosRuntime.silent


def silence_key(name: str) -> str:
    return f"berth:simulated:{settings.BERTH_INSTALLATION}:silent:{name}"


@dataclass(slots=True)
class World:
    """`actors` are people, then tokens of some. `sent` are tasks of this process that nobody has run yet; they are lost with it."""

    actors: list[Actor]
    projects: dict[int, str]
    groups: list[ResourceGroup]
    policies: dict[str, int]
    runtimes: dict[str, ChaosRuntime]
    image: str
    sent: deque[tuple[TaskName, dict[str, Any]]] = field(default_factory=deque)

    def run_task(self, chance: random.Random, *, is_twice: bool = False) -> None:
        """One of those that were sent: the oldest, or any; now and then twice."""
        if not self.sent:
            return
        if chance.random() < 0.2:
            self.sent.rotate(chance.randrange(len(self.sent)))
        name, arguments = self.sent.popleft()
        for _ in range(2 if is_twice else 1):
            body_of(name)(**arguments)

    def look_after(self) -> None:
        """What the clock of a portal asks for."""
        heartbeat_agents()
        tasks.reconcile_sessions()
        body_of(TaskName.TICK)()


def body_of(name: TaskName) -> Callable[..., object]:
    """Without the retries of a worker, which would go to a broker."""
    task = celery.tasks[name.value]
    return getattr(task, "_orig_run", task.run)  # type: ignore[no-any-return]


def make() -> None:
    """Rows and tables of a run."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE chaos_acknowledged (session_id uuid PRIMARY KEY)")
        cursor.execute(
            "CREATE TABLE chaos_limits (policy_id bigint, name text, value bigint, at timestamptz DEFAULT now())"
        )
    ContainerImage.objects.create(reference="chaos:1", title="Chaos", architecture="x86_64")
    policies = {level: ResourcePolicy.objects.create(name=f"chaos-{level}") for level in LEVELS}
    domains = [
        Domain.objects.create(name=f"d{number}", policy=policies["domain"]) for number in range(DOMAINS)
    ]
    projects = [
        Project.objects.create(
            name=f"p{number}", domain=domains[number % DOMAINS], policy=policies["project"]
        )
        for number in range(PROJECTS)
    ]
    for number in range(PEOPLE):
        project = projects[number % PROJECTS]
        user = User.objects.create(
            email=f"u{number}@chaos.example", domain=project.domain, policy=policies["user"]
        )
        Membership.objects.create(user=user, project=project)
        if number % WITH_TOKEN == 0:
            keypair, _token = create_keypair(actor=actor_of(user), name="robot")
            KeyPair.objects.filter(pk=keypair.pk).update(policy=policies["keypair"])
    for name, scheduler in (("fifo", Scheduler.FIFO), ("drf", Scheduler.DRF)):
        group = ResourceGroup.objects.create(name=name, scheduler=scheduler, is_default=name == "fifo")
        add_simulated_agents(actor=SYSTEM, group=group, count=AGENTS_PER_GROUP, shape=SHAPE)


def enter(installation: str) -> World:
    """The world as this process sees and serves it, in a hurry: what takes minutes in a portal takes seconds."""
    agent_services.LOST_AFTER = reconcile.STALE_AFTER = QUICK
    reconcile.LOST_GRACE = QUICK
    celery.loader.import_default_modules()
    runtimes = {}
    for agent in Agent.objects.all():
        runtimes[agent.name] = ChaosRuntime(
            name=agent.name,
            cpu_milli=SHAPE.cores * 1000,
            mem_bytes=SHAPE.mem_gib * 2**30,
            devices={"gpu": SHAPE.gpus * 1000},
            has_any_image=True,
            shelf=shared_shelf(f"{installation}:{agent.name}"),
        )
        adopt_runtime(agent.address, runtimes[agent.name])
    people = list(User.objects.filter(email__endswith="@chaos.example").order_by("pk"))
    keypairs = KeyPair.objects.filter(user__in=people).select_related("user").order_by("pk")
    of_project = dict(Membership.objects.values_list("user_id", "project__name"))
    world = World(
        actors=[*map(actor_of, people), *map(_token_of, keypairs)],
        projects={user.pk: of_project[user.pk] for user in people},
        groups=list(ResourceGroup.objects.order_by("pk")),
        policies={
            policy.name.removeprefix("chaos-"): policy.pk
            for policy in ResourcePolicy.objects.filter(name__startswith="chaos-")
        },
        runtimes=runtimes,
        image="chaos:1",
    )
    dispatch.current_app = _Broker(world)  # type: ignore[assignment]
    return world


def _token_of(keypair: KeyPair) -> Actor:
    return replace(actor_of(keypair.user), kind=ActorKind.TOKEN, keypair_id=keypair.pk)


class _Broker:
    """Takes what is sent, for this process to do. Raises ValueError for a task of which a run knows nothing."""

    def __init__(self, world: World) -> None:
        self._world = world

    def send_task(self, name: str, *, kwargs: dict[str, Any], **_: object) -> None:
        task = TaskName(name)
        if task in SERVED:
            self._world.sent.append((task, json.loads(json.dumps(kwargs))))
        elif task not in LEFT_OUT:
            raise ValueError(f"The chaos run was sent “{task}”: add it to SERVED or to LEFT_OUT.")
