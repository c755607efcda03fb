"""Objects of a chaos run: users under tight limits, small simulated agents, and engines that hang."""

import json
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import connection

from accounts.credentials.keypairs import create_keypair
from accounts.models import Domain, KeyPair, Membership, Project, ResourcePolicy, User
from agents.machines.simulation import MachineShape, add_simulated_agents
from agents.models import Agent, ResourceGroup, Scheduler
from agents.runtime.port import ContainerStatus
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.runtime.simulated.state import Container, RedisMapping, ended, shared_state
from agents.tasks import heartbeat_agents
from common.actors import SYSTEM, Actor, ActorKind
from common.messaging import dispatch
from common.messaging.dispatch import TaskName
from common.messaging.redis import client
from images.models import ContainerImage
from portal.celery import app as celery
from portal.demo.simulated_cluster import actor_of
from sessions_app import tasks
from tests.chaos.questions import TABLES
from tests.waiting import wait_until

DOMAINS, PROJECTS, PEOPLE = 2, 6, 24
AGENTS_PER_GROUP = 48
SHAPE = MachineShape(cores=128, mem_gib=512, gpus=16)
LIMITS = {
    "sessions": {"domain": (2000, 8000), "project": (700, 3500), "user": (200, 1500), "keypair": (100, 1000)},
    "pending_sessions": {"domain": (1000, 5000), "project": (400, 2000), "user": (150, 900), "keypair": (80, 600)},
    "slots.cpu": {
        "domain": (3_000_000, 10_000_000), "project": (1_000_000, 5_000_000), "user": (300_000, 2_000_000),
        "keypair": (200_000, 1_500_000),
    },
    "slots.gpu": {
        "domain": (500_000, 1_600_000), "project": (150_000, 800_000), "user": (40_000, 400_000), "keypair": (30_000, 300_000),
    },
    "pending_slots.cpu": {
        "domain": (3_000_000, 14_000_000), "project": (1_200_000, 6_000_000), "user": (400_000, 2_500_000),
        "keypair": (250_000, 2_000_000),
    },
}  # fmt: skip
"""From … to, by level; a slot in base units. Lower and higher than what there is: now limits bind, now machines do."""
LEVELS = ("domain", "project", "user", "keypair")
GROUP_LIMITS = {
    ("all", "together", "gpu"): (200_000, 900_000),
    ("batch", "together", "cpu"): (1_500_000, 7_000_000),
    ("batch", "each", "cpu"): (150_000, 1_000_000),
    ("batch", "each", "gpu"): (20_000, 120_000),
}
"""The same of each group, by the name of its limit and what that counts; somewhat less than its machines have, at first."""
FIRST_GROUP_LIMITS = [
    {"name": "all", "together": {"gpu": 600_000}},
    {"name": "batch", "session_types": ["batch"], "together": {"cpu": 4_000_000}, "each": {"cpu": 500_000, "gpu": 60_000}},
]  # fmt: skip
WITH_TOKEN = 3  # every so many-th person also has a token
SILENT_FOR_S = 12
QUICK_S = 3
LOOKED_EVERY_S = 0.5
SERVED = frozenset(
    {
        TaskName.TICK, TaskName.LAUNCH_SESSION,
        TaskName.TERMINATE_SESSION, TaskName.SETTLE_DEPENDENTS, TaskName.LOOK_AT_ARRAY,
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
            found: Any = client().zrangebyscore(_silences(), time.time(), "+inf")
            ChaosRuntime.silent = frozenset(name.decode() for name in found)
        return self.name not in ChaosRuntime.silent


def silence(machine: str) -> None:
    """It answers nobody for a while."""
    client().zadd(_silences(), {machine: time.time() + SILENT_FOR_S})


def wait_for_the_silent() -> None:
    """Until all machines answer again, SILENT_FOR_S at the longest if none is silenced meanwhile."""
    wait_until(lambda: not client().zcount(_silences(), time.time(), "+inf"), deadline_s=2 * SILENT_FOR_S)
    ChaosRuntime.looked_at = 0.0


def sent_key() -> str:
    return f"berth:simulated:{settings.BERTH_INSTALLATION}:sent"


def _silences() -> str:
    return f"berth:simulated:{settings.BERTH_INSTALLATION}:silent"


@dataclass(slots=True)
class World:
    """`actors` are people, then tokens of some. Messages of tasks that nobody has run yet lie in Redis, as those of a portal do."""

    actors: list[Actor]
    projects: dict[int, str]
    groups: list[ResourceGroup]
    policies: dict[str, int]
    runtimes: dict[str, ChaosRuntime]
    image: str
    are_lost: float = 0.0

    def sent(self) -> int:
        """How many messages wait."""
        return int(client().llen(sent_key()))  # type: ignore[arg-type]

    def run_task(self, chance: random.Random, *, is_twice: bool = False) -> None:
        """Run the oldest or the newest task that was sent, now and then twice. It is lost with the process that took it."""
        take = client().rpop if chance.random() < 0.2 else client().lpop
        if message := take(sent_key()):
            name, arguments = json.loads(message)  # type: ignore[arg-type]
            for _ in range(2 if is_twice else 1):
                body_of(TaskName(name))(**arguments)

    def look_after(self) -> None:
        """What the clock of a portal asks for. The auditor counts the rounds that came to their end."""
        heartbeat_agents()
        tasks.reconcile_sessions()
        body_of(TaskName.TICK)()
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO chaos_rounds DEFAULT VALUES")

    def finish(self, chosen: Iterable[tuple[str, str]], exit_code: int) -> int:
        """The programs of these containers (machine, name) end by themselves, as long as they run; how many did."""
        now, ends = datetime.now(UTC), 0
        by_machine: dict[str, list[str]] = {}
        for machine, name in chosen:
            by_machine.setdefault(machine, []).append(name)
        for machine, names in by_machine.items():
            state: RedisMapping[Container] = self.runtimes[machine].state.containers  # type: ignore[assignment]
            texts: Any = client().hmget(state.key, names)
            told: list[bytes | str] = []
            for name, text in zip(names, texts, strict=True):
                container = text and state.decoded(text)
                if container and container.state.status is ContainerStatus.RUNNING:
                    container.state = ended(container.state, exit_code, now)
                    told += [name, text, state.encoded(container)]
            ends += int(client().eval(_END, 1, state.key, *told)) if told else 0  # type: ignore[arg-type]
        return ends


_END = """
    local ends = 0
    for i = 1, #ARGV, 3 do
        if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
            redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
            ends = ends + 1
        end
    end
    return ends
"""
"""Only what is still as it was read: whoever removed a container meanwhile does not find it again."""


def body_of(name: TaskName) -> Callable[..., object]:
    """Without the retries of a worker, which would go to a broker."""
    task = celery.tasks[name.value]
    return getattr(task, "_orig_run", task.run)  # type: ignore[no-any-return]


def make() -> None:
    """Rows and tables of a run."""
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
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
        group = ResourceGroup(
            name=name, scheduler=scheduler, is_default=name == "fifo", limits=FIRST_GROUP_LIMITS
        )
        group.clean()  # which brings limits into the form in which they are kept
        group.save()
        add_simulated_agents(actor=SYSTEM, group=group, count=AGENTS_PER_GROUP, shape=SHAPE)


def enter(installation: str) -> World:
    """The world as this process sees and serves it, in a hurry: what takes minutes in a portal takes seconds."""
    settings.BERTH_LOST_AFTER_S = settings.BERTH_LOST_GRACE_S = QUICK_S
    celery.loader.import_default_modules()
    runtimes = {}
    for agent in Agent.objects.all():
        runtimes[agent.name] = ChaosRuntime(
            name=agent.name,
            cpu_milli=SHAPE.cores * 1000,
            mem_bytes=SHAPE.mem_gib * 2**30,
            devices={"gpu": SHAPE.gpus * 1000},
            has_any_image=True,
            state=shared_state(f"{installation}:{agent.name}"),
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
    dispatch.current_app = _Broker(world)  # type: ignore[assignment,attr-defined]
    return world


def _token_of(keypair: KeyPair) -> Actor:
    return replace(actor_of(keypair.user), kind=ActorKind.TOKEN, keypair_id=keypair.pk)


class _Broker:
    """Keeps what is sent, for whichever process takes it, and loses some. Raises ValueError for a task of which a run knows
    nothing."""

    def __init__(self, world: World) -> None:
        self._world = world

    def send_task(self, name: str, *, kwargs: dict[str, Any], **_: object) -> None:
        task = TaskName(name)
        if task in SERVED and random.random() >= self._world.are_lost:
            client().rpush(sent_key(), json.dumps([task.value, kwargs]))
        elif task not in SERVED | LEFT_OUT:
            raise ValueError(f"The chaos run was sent “{task}”: add it to SERVED or to LEFT_OUT.")
