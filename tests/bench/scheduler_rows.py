"""Write a workload into the database in bulk: users, simulated agents and pending sessions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.hashers import make_password
from django.db import connection

from accounts.limits import default_policy
from accounts.models import Domain, Membership, Project, User
from agents.machines.accelerators import simulate_devices
from agents.models import Agent, AgentDevice, AgentSlot, ResourceGroup
from common import clock
from common.values.resources import ResourceSlots
from images.models import ContainerImage
from sessions_app.admission.names import new_host_label
from sessions_app.models import ComputeSession, Kernel
from tests.bench.scheduler_engine import GPU, slots_of
from tests.bench.scheduler_workload import DOMAINS, NODE, PROJECTS, USERS, Session, Workload

BATCH, MANY = 2000, 1_000_000


@dataclass(frozen=True, slots=True)
class Tenants:
    """Domains, projects and users of a workload by number, and their one image."""

    projects: Sequence[Project]
    people: Sequence[User]
    image: ContainerImage


def make_tenants() -> Tenants:
    """Create the tenants. Their users cannot sign in."""
    policy, nobody_knows = default_policy(), make_password(None)
    policy.max_sessions = MANY  # is counted and checked, but never reached
    policy.save(update_fields=["max_sessions"])
    domains = Domain.objects.bulk_create(Domain(name=f"domain-{number}") for number in range(DOMAINS))
    projects = Project.objects.bulk_create(
        Project(domain=domains[number % DOMAINS], name=f"project-{number}") for number in range(PROJECTS)
    )
    people: list[User] = User.objects.bulk_create(
        User(
            email=f"person-{number}@berth.example",
            password=nobody_knows,
            domain=projects[number % PROJECTS].domain,
            policy=policy,
        )
        for number in range(USERS)
    )
    Membership.objects.bulk_create(
        Membership(user=person, project=projects[number % PROJECTS]) for number, person in enumerate(people)
    )
    image = ContainerImage.objects.create(reference="bench:1", title="Bench", architecture="x86_64")
    return Tenants(projects, people, image)


def fill_group(name: str, workload: Workload, tenants: Tenants) -> ResourceGroup:
    """Create a resource group with the workload's agents and pending sessions.

    Amounts allocated on agents from the start belong to no session.
    """
    group = ResourceGroup.objects.create(name=name)
    agents = Agent.objects.bulk_create(
        Agent(
            name=f"{name}-{number}",
            address=f"simulated://{name}-{number}",
            resource_group=group,
            architecture=tenants.image.architecture,
            engine_id=f"simulated:{name}-{number}",
            data={"cores": NODE.cores},
        )
        for number in range(workload.nodes)
    )
    held = slots_of(workload.held)
    AgentSlot.objects.bulk_create(
        (
            AgentSlot(agent=agent, slot_name=slot, capacity=amount, occupied=held[slot])
            for agent in agents
            for slot, amount in slots_of(NODE).items()
        ),
        batch_size=BATCH,
    )
    simulate_devices([agent.pk for agent in agents], GPU, NODE.milli_gpus // 1000, "")
    whole_held = AgentDevice.objects.filter(
        agent__resource_group=group, index__lt=workload.held.milli_gpus // 1000
    )
    whole_held.update(occupied=1000)
    add_sessions(group, workload.sessions, tenants)
    return group


def add_sessions(group: ResourceGroup, waiting: Sequence[Session], tenants: Tenants) -> None:
    """Add pending sessions to `group`."""
    oldest = clock.now() - timedelta(milliseconds=len(waiting))
    rows = [_session(session, group, tenants, oldest) for session in waiting]
    ComputeSession.objects.bulk_create(rows, batch_size=BATCH)
    kernels = (
        Kernel(session=row, role="sub" if index else "main", index=index or 1)
        for row in rows
        for index in range(row.kernel_count)
    )
    Kernel.objects.bulk_create(kernels, batch_size=BATCH)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")  # autovacuum would do this a minute later


def _session(session: Session, group: ResourceGroup, tenants: Tenants, oldest: datetime) -> ComputeSession:
    project = tenants.projects[session.project]
    asked: ResourceSlots = slots_of(session.size)
    return ComputeSession(
        name=f"{group.name}-{session.number}",
        type="batch",
        owner=tenants.people[session.user],
        project=project,
        domain_id=project.domain_id,
        resource_group=group,
        image=tenants.image,
        image_reference=tenants.image.reference,
        requested_slots=asked.to_json(),
        kernel_count=session.containers,
        shm_bytes=2**26,
        created_at=oldest + timedelta(milliseconds=session.number),
        deadline_at=clock.now() + timedelta(days=30),
        host_label=new_host_label(),
        app_token="unused",
    )
