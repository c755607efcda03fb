"""`manage.py seed_demo_load`: creates rows of many agents, sessions and folders, to measure pages
under load.

Nothing of them runs. A portal with running workers treats them like all others: it finds that
agents do not answer and that containers are missing, and reports it.
"""

import random
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.hashers import make_password
from django.core.management import BaseCommand, CommandError
from django.db import connection, transaction

from accounts.core.roles import Role
from accounts.limits import default_policy
from accounts.models import Domain, Membership, Project, User
from accounts.tenancy.service import create_domain
from agents.core.states import AgentState
from agents.models import Agent, AgentImage, AgentSlot, ResourceGroup
from common import clock
from common.actors import SYSTEM
from common.values.resources import CPU, MEM
from images.models import ContainerImage
from portal.demo.samples import make_audit, make_budgets
from sessions_app.admission.names import new_host_label
from sessions_app.core.states import REASON_SENTENCES, Reason, Status
from sessions_app.models import ComputeSession, Kernel, KernelAllocation, SessionTransition
from vfolders.models import StorageHost, VFolder

DOMAIN = "load"
OURS = "@berth.example"
"""E-mail domain of accounts made by bin/up and by this command; all others are real users."""
GIB = 2**30
SEED = 20
GROUPS, IMAGES = 4, 12
MADE = ("people", "projects", "agents", "sessions", "history", "folders", "audit")
LIVE_OF_100 = 10
MOST_ON_ONE = 50
ENDS = (Reason.USER_REQUESTED, Reason.COMMAND_FINISHED, Reason.COMMAND_FAILED, Reason.AGENT_LOST)
LIVE_STATUSES = (*[Status.RUNNING] * 7, Status.PENDING, Status.STARTING, Status.TERMINATING)
LIVE_REASONS = {
    Status.RUNNING: Reason.CONTAINERS_UP,
    Status.PENDING: Reason.ENQUEUED,
    Status.STARTING: Reason.IMAGE_READY,
    Status.TERMINATING: Reason.USER_REQUESTED,
}
AGENT_STATES = (
    *[AgentState.CONNECTED] * 16,
    AgentState.DRAINING,
    AgentState.MAINTENANCE,
    AgentState.LOST,
    AgentState.RETIRED,
)
WORDS = ("train", "notebook", "evaluate", "prepare", "resnet", "index", "tune", "export")


@dataclass(frozen=True, slots=True)
class Stock:
    """Objects that sessions refer to."""

    domain: Domain
    projects: Sequence[Project]
    people: Sequence[User]
    groups: Sequence[ResourceGroup]
    images: Sequence[ContainerImage]
    agents: Sequence[Agent]


class Command(BaseCommand):
    help = "Fill this portal with rows of a busy one. Refuses where there are real people."

    def add_arguments(self, parser: ArgumentParser) -> None:  # type: ignore[override]
        parser.add_argument("--people", type=int, default=40)
        parser.add_argument("--projects", type=int, default=5)
        parser.add_argument("--sessions", type=int, default=10_000, help="one in ten of them alive")
        parser.add_argument("--history", type=int, default=0, help="further sessions that have ended")
        parser.add_argument("--agents", type=int, default=1_000)
        parser.add_argument("--folders", type=int, default=2_000)
        parser.add_argument("--audit", type=int, default=100_000, help="lines of the audit log")
        parser.add_argument("--force", action="store_true", help="even beside real people")

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        if not options["force"] and User.objects.exclude(email__endswith=OURS).exists():
            raise CommandError("Real people use this portal. Add --force if it shall be filled nevertheless.")
        if Domain.objects.filter(name=DOMAIN).exists():
            raise CommandError(f"The domain “{DOMAIN}” is there already: this portal was filled before.")
        if options["agents"] and options["sessions"] > MOST_ON_ONE * options["agents"]:
            raise CommandError(
                f"Ask for at most {MOST_ON_ONE} sessions a machine, or the live ones do not fit."
            )
        if min(options["people"], options["projects"]) < 1:
            raise CommandError("Ask for at least one person and one project: sessions belong to them.")
        with connection.cursor() as cursor:
            # Check references per batch: all at the end would exceed the response timeout.
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        chance = random.Random(SEED)  # noqa: S311 -- the same rows each time
        stock = _make_stock(options["people"], options["projects"], options["agents"])
        _make_sessions(stock, options["sessions"], options["history"], chance)
        _make_folders(stock, options["folders"], chance)
        make_audit(stock.people, options["audit"], chance)
        make_budgets(stock.projects, stock.people)
        made = ", ".join(f"{options[name]} {name}" for name in MADE)
        self.stdout.write(f"Made {made} in the domain “{DOMAIN}”.")


def _make_stock(people_count: int, project_count: int, agent_count: int) -> Stock:
    domain = create_domain(actor=SYSTEM, name=DOMAIN, title="Load")
    projects = Project.objects.bulk_create(
        Project(domain=domain, name=f"load-{number}") for number in range(project_count)
    )
    groups = [ResourceGroup.objects.create(name=f"load-{number}") for number in range(GROUPS)]
    images = ContainerImage.objects.bulk_create(
        ContainerImage(
            reference=f"registry.test/load-{number}:1",
            title=f"Load {number}",
            architecture="x86_64",
            size_bytes=GIB,
        )
        for number in range(IMAGES)
    )
    people = _make_people(people_count, domain, projects)
    return Stock(domain, projects, people, groups, images, _make_agents(agent_count, groups, images))


def _make_people(count: int, domain: Domain, projects: Sequence[Project]) -> list[User]:
    """Create accounts that nobody can sign in to."""
    nobody_knows, policy = make_password(None), default_policy()
    people: list[User] = User.objects.bulk_create(
        [
            User(
                email=f"load-{number}{OURS}",
                password=nobody_knows,
                domain=domain,
                role=Role.USER.value,
                policy=policy,
            )
            for number in range(count)
        ],
        batch_size=2000,
    )
    Membership.objects.bulk_create(
        (
            Membership(user=person, project=projects[number % len(projects)])
            for number, person in enumerate(people)
        ),
        batch_size=2000,
    )
    return people


def _make_agents(
    count: int, groups: Sequence[ResourceGroup], images: Sequence[ContainerImage]
) -> list[Agent]:
    agents: list[Agent] = Agent.objects.bulk_create(
        Agent(
            name=f"load-{number:04}",
            address=f"simulated://load-{number:04}?cpu=64&mem_gib=256",
            resource_group=groups[number % len(groups)],
            state=AGENT_STATES[number % len(AGENT_STATES)].value,
            architecture="x86_64",
            engine_id=f"simulated:load-{number:04}",
            engine_version="28.0.0",
        )
        for number in range(count)
    )
    AgentSlot.objects.bulk_create(
        AgentSlot(agent=agent, slot_name=name, capacity=capacity)
        for agent in agents
        for name, capacity in ((CPU, 64_000), (MEM, 256 * GIB))
    )
    AgentImage.objects.bulk_create(
        AgentImage(agent=agent, reference=image.reference, image_id=f"sha256:{image.pk}", size_bytes=GIB)
        for agent in agents
        for image in images[agent.pk % 3 :: 3]
    )
    return agents


def _make_sessions(stock: Stock, count: int, history: int, chance: random.Random) -> None:
    now = clock.now()
    lives = [chance.randrange(100) < LIVE_OF_100 for _ in range(count)] + [False] * history
    sessions = [_session(stock, number, chance, now, is_live) for number, is_live in enumerate(lives)]
    ComputeSession.objects.bulk_create(sessions, batch_size=2000)
    in_use = [agent for agent in stock.agents if agent.state != AgentState.RETIRED.value]
    usable: Sequence[Agent | None] = in_use or [None]
    kernels = [
        Kernel(
            session=session, agent=None if session.status == Status.PENDING else usable[number % len(usable)]
        )
        for number, session in enumerate(sessions)
    ]
    Kernel.objects.bulk_create(kernels, batch_size=2000)
    KernelAllocation.objects.bulk_create(_allocations(kernels), batch_size=2000)
    SessionTransition.objects.bulk_create(
        (
            SessionTransition(
                session=session,
                to_status=session.status,
                reason=session.status_reason,
                message=session.status_message,
                actor_label="system",
                happened_at=session.status_changed_at,
            )
            for session in sessions
        ),
        batch_size=2000,
    )


def _session(
    stock: Stock, number: int, chance: random.Random, now: datetime, is_live: bool
) -> ComputeSession:
    status = chance.choice(LIVE_STATUSES) if is_live else Status.TERMINATED
    reason = LIVE_REASONS[status] if is_live else chance.choice(ENDS)
    if reason is Reason.AGENT_LOST:
        status = Status.ERROR
    owner_number = chance.randrange(len(stock.people))
    image = chance.choice(stock.images)
    created_at = now - timedelta(seconds=chance.randrange(60, 90 * 24 * 3600))
    ended_at = None if is_live else created_at + timedelta(seconds=chance.randrange(1, 7200))
    return ComputeSession(
        name=f"{chance.choice(WORDS)}-{number}",
        type="batch" if chance.randrange(3) == 0 else "interactive",
        owner=stock.people[owner_number],
        project=stock.projects[owner_number % len(stock.projects)],
        domain=stock.domain,
        resource_group=chance.choice(stock.groups),
        image=image,
        image_reference=image.reference,
        status=status.value,
        status_reason=reason.value,
        status_message=REASON_SENTENCES[reason],
        status_changed_at=ended_at or created_at,
        requested_slots={CPU: 1000 * chance.randrange(1, 9), MEM: GIB * chance.randrange(1, 17)},
        shm_bytes=2**26,
        host_label=new_host_label(),
        app_token="unused",
        created_at=created_at,
        started_at=None if status is Status.PENDING else created_at,
        deadline_at=now + timedelta(days=30) if is_live else None,
        ended_at=ended_at,
    )


def _allocations(kernels: Sequence[Kernel]) -> Iterator[KernelAllocation]:
    """Yield the allocations of live sessions that have an agent."""
    for kernel in kernels:
        if kernel.agent is None or not kernel.session.is_live:
            continue
        for name, amount in kernel.session.requested_slots.items():
            yield KernelAllocation(kernel=kernel, agent=kernel.agent, slot_name=name, amount=amount)


def _make_folders(stock: Stock, count: int, chance: random.Random) -> None:
    """Create folder rows without directories, on a host that accepts no new folders."""
    host = StorageHost.objects.create(name="load", config={"root": "load"}, is_active=False)
    folders = []
    for number in range(count):
        owner_number = number % len(stock.people)
        is_shared = chance.randrange(5) == 0
        folders.append(
            VFolder(
                name=f"{chance.choice(WORDS)}-{number}",
                domain=stock.domain,
                owner=None if is_shared else stock.people[owner_number],
                project=stock.projects[owner_number % len(stock.projects)] if is_shared else None,
                creator=stock.people[owner_number],
                host=host,
            )
        )
    VFolder.objects.bulk_create(folders, batch_size=2000)
