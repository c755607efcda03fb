"""Create all that running sessions need: an agent with an in-memory
engine, image, project, member.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

from accounts.models import Project, User
from agents.machines import service as agent_services
from agents.models import Agent, ResourceGroup
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from common import clock
from common.actors import SYSTEM
from images.models import ContainerImage
from scheduler.tick import run_tick
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import parse_request
from sessions_app.core.states import Status
from sessions_app.launch.launcher import launch_session
from sessions_app.launch.terminator import end_session
from sessions_app.models import ComputeSession, Kernel, KernelMetric
from sessions_app.storage_reach.service import trust_simulated
from sessions_app.termination.service import terminate_session
from tests import factories
from vfolders.models import StorageHost

_numbers = count(1)
GIB = 2**30
APPS = [
    {
        "name": "jupyter",
        "title": "JupyterLab",
        "port": 8888,
        "command": ["jupyter", "lab", "--t={token}"],
        "autostart": True,
    },
    {
        "name": "board",
        "title": "Board",
        "port": 6006,
        "command": ["board", "--port={port}"],
        "autostart": False,
    },
]


@dataclass(slots=True)
class Place:
    """Agent, image and project for sessions. Its methods act as workers do, in this process."""

    project: Project
    owner: User
    image: ContainerImage
    group: ResourceGroup
    agent: Agent
    runtime: SimulatedRuntime

    def request(self, **changes: object) -> dict[str, object]:
        """Return the smallest valid request body."""
        return {
            "name": f"session-{next(_numbers)}",
            "project": self.project.name,
            "image": self.image.reference,
            "resource_group": self.group.name,
            "resources": {"cpu": 1, "mem": "1g"},
            **changes,
        }

    def enqueue(self, by: User | None = None, **changes: object) -> ComputeSession:
        actor = factories.actor_for(by or self.owner)
        return enqueue_session(actor=actor, request=parse_request(self.request(**changes)))

    def place(self, **changes: object) -> ComputeSession:
        """Create a SCHEDULED session."""
        session = self.enqueue(**changes)
        trust_simulated(StorageHost.objects.all())
        run_tick(self.group.pk)
        return self.fresh(session)

    def run(self, **changes: object) -> ComputeSession:
        """Create a RUNNING session."""
        return self.run_pending(self.enqueue(**changes))

    def run_pending(self, session: ComputeSession) -> ComputeSession:
        """Bring `session` from PENDING to RUNNING, and return it."""
        trust_simulated(StorageHost.objects.all())
        run_tick(self.group.pk)
        launch_session(session.pk)
        return self.fresh(session)

    def end(self, session: ComputeSession) -> ComputeSession:
        """Move `session` to TERMINATED, and return it."""
        terminate_session(actor=factories.actor_for(self.owner), session_id=session.pk)
        end_session(session.pk)
        return self.fresh(session)

    def fresh(self, session: ComputeSession) -> ComputeSession:
        return ComputeSession.objects.get(pk=session.pk)

    def occupied(self) -> dict[str, int]:
        return {slot.slot_name: slot.occupied for slot in self.agent.slots.all() if slot.occupied}

    def replace_runtime(self, make: Callable[..., SimulatedRuntime]) -> SimulatedRuntime:
        """Replace the engine at the agent's address."""
        self.runtime = make(images=(self.image.reference,))
        adopt_runtime(self.agent.address, self.runtime)
        return self.runtime


def make_place(*, cpu_milli: int = 8000, mem_bytes: int = 32 * GIB) -> Place:
    number = next(_numbers)
    image = ContainerImage.objects.create(
        reference=f"berth/test:{number}", title="Test", architecture="x86_64", apps=APPS
    )
    runtime = SimulatedRuntime(
        name=f"machine-{number}", cpu_milli=cpu_milli, mem_bytes=mem_bytes, images=(image.reference,)
    )
    address = f"simulated://machine-{number}"
    adopt_runtime(address, runtime)
    group = ResourceGroup.objects.create(
        name=f"group-{number}", is_default=not ResourceGroup.objects.exists()
    )
    agent = agent_services.register_agent(
        actor=SYSTEM, name=f"machine-{number}", address=address, resource_group=group
    )
    project = factories.make_project()
    return Place(
        project=project,
        owner=factories.make_user(member_of=project),
        image=image,
        group=group,
        agent=agent,
        runtime=runtime,
    )


def measure_nothing_used() -> None:
    """Record CPU use of zero for all running kernels in the last minutes.

    Other values are not recorded.
    """
    now = clock.now().replace(second=0, microsecond=0)
    KernelMetric.objects.bulk_create(
        (
            KernelMetric(
                kernel=kernel, span_s=60, at=now - timedelta(minutes=minute), cpu_milli=0, mem_bytes=0
            )
            for kernel in Kernel.objects.filter(session__status=Status.RUNNING)
            for minute in range(6)
        ),
        ignore_conflicts=True,
    )
