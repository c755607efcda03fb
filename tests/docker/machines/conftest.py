"""Two real engines as machines, with the session image, and a place whose sessions run there."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from agents.connections.service import certificates_connection
from agents.core.states import AgentState
from agents.machines import service as agent_services
from agents.management.commands.register_agent import read_certificates
from agents.models import Agent
from agents.selectors import runtime_of
from common.actors import SYSTEM
from images.models import ContainerImage
from portal.ops.cluster import machines
from portal.ops.cluster.images import share_image
from portal.ops.cluster.layout import Cluster, ClusterMachine
from portal.ops.engine.session_image import ensure_session_image
from tests import engines
from tests.factories_folders import make_storage_host
from tests.factories_sessions import Place
from vfolders.models import StorageHost


@pytest.fixture(scope="package")
def shared_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    return ensure_session_image(print, tmp_path_factory.mktemp("data"), address=engines.ADDRESS)


@pytest.fixture(scope="package")
def two_machines(shared_image: str) -> Iterator[list[ClusterMachine]]:
    cluster = Cluster(uuid4().hex[:6])
    try:
        made = machines.bring_up(cluster, 2)
        share_image(shared_image, made, engine=engines.ADDRESS)
        yield made
    finally:
        machines.remove_cluster(cluster)


@pytest.fixture
def place(place: Place, shared_image: str, two_machines: list[ClusterMachine]) -> Place:
    """Return a place whose sessions start on the two machines only."""
    Agent.objects.filter(pk=place.agent.pk).update(state=AgentState.DRAINING)
    connection = certificates_connection(read_certificates(two_machines[0].cluster.certificates))
    for machine in two_machines:
        agent = agent_services.register_agent(
            actor=SYSTEM,
            name=f"real-{machine.number}",
            address=machine.url,
            connection=connection,
            resource_group=place.group,
        )
    found = runtime_of(agent).inspect_image(shared_image)
    assert found is not None
    place.image = ContainerImage.objects.create(
        reference=shared_image,
        title="Python",
        architecture=agent.architecture,
        apps=[],
        digest=found.image_id,
    )
    return place


@pytest.fixture
def shared_host(tmp_path: Path) -> StorageHost:
    """Return a storage host whose path all machines share."""
    host = make_storage_host(tmp_path)
    host.reach, host.agent_path = StorageHost.Reach.PATH, host.config["root"]
    host.save()
    return host
