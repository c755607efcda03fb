"""Create agents with capacity, and pending sessions of one user. Amounts in base units."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

from accounts.models import KeyPair, Project, User
from agents.core.states import AgentState
from agents.machines import lifecycle as agents_lifecycle
from agents.models import Agent, AgentSlot, ResourceGroup
from common import clock
from common.actors import SYSTEM
from images.models import ContainerImage
from sessions_app.admission.names import new_host_label
from sessions_app.models import ComputeSession, Kernel
from tests import factories

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Resource group with the objects that a session needs."""

    group: ResourceGroup
    project: Project
    owner: User
    image: ContainerImage

    def add_agent(self, capacity: Mapping[str, int], *, state: AgentState = AgentState.CONNECTED) -> Agent:
        number = next(_numbers)
        agent = Agent.objects.create(
            name=f"agent-{number}",
            address=f"tcp://agent-{number}.test:2376",
            resource_group=self.group,
            architecture=self.image.architecture,
            engine_id=f"engine-{number}",
        )
        AgentSlot.objects.bulk_create(
            AgentSlot(agent=agent, slot_name=name, capacity=amount) for name, amount in capacity.items()
        )
        return agents_lifecycle.transition(agent.pk, to=state, actor=SYSTEM)

    def add_pending(
        self,
        slots: Mapping[str, int],
        *,
        kernels: int = 1,
        age_s: int = 0,
        priority: int = 0,
        owner: User | None = None,
        timeout_s: int | None = None,
        keypair: KeyPair | None = None,
    ) -> ComputeSession:
        """Create a session pending for `age_s` seconds; `slots` are per kernel."""
        now = clock.now()
        session = ComputeSession.objects.create(
            name=f"session-{next(_numbers)}",
            type="interactive",
            owner=owner or self.owner,
            keypair=keypair,
            timeout_s=timeout_s,
            project=self.project,
            domain=self.project.domain,
            resource_group=self.group,
            image=self.image,
            image_reference=self.image.reference,
            requested_slots=dict(slots),
            shm_bytes=2**26,
            priority=priority,
            created_at=now - timedelta(seconds=age_s),
            deadline_at=now + timedelta(days=1),
            host_label=new_host_label(),
            app_token="unused",
        )
        Kernel.objects.bulk_create(
            Kernel(session=session, role="sub" if index else "main", index=index or 1)
            for index in range(kernels)
        )
        return session


def make_cluster(**group_fields: object) -> Cluster:
    """Create an empty resource group, with a project member who may use it."""
    number = next(_numbers)
    project = factories.make_project()
    return Cluster(
        group=ResourceGroup.objects.create(name=f"group-{number}", **group_fields),
        project=project,
        owner=factories.make_user(member_of=project),
        image=ContainerImage.objects.create(reference=f"berth/test:{number}", architecture="x86_64"),
    )
