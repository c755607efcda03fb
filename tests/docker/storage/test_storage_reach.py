"""Storage hosts on a second real machine: proofs, and a session there that uses a folder."""

import os
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
from sessions_app.core.states import Status
from sessions_app.storage_reach import service
from sessions_app.storage_reach.proof import proof_folder, prove
from tests import engines
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place
from vfolders.models import StorageHost
from vfolders.selectors import mount_source

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("empty_redis"),
    pytest.mark.docker,
    pytest.mark.wide,  # copies the session image to a machine
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def machine(image: str) -> Iterator[ClusterMachine]:
    cluster = Cluster(uuid4().hex[:6])
    try:
        [made] = machines.bring_up(cluster, 1)
        share_image(image, [made], engine=engines.ADDRESS)
        yield made
    finally:
        machines.remove_cluster(cluster)


@pytest.fixture
def remote(place: Place, image: str, machine: ClusterMachine) -> Agent:
    """Return the only machine that takes sessions."""
    Agent.objects.filter(pk=place.agent.pk).update(state=AgentState.RETIRED)
    agent = agent_services.register_agent(
        actor=SYSTEM,
        name="second",
        address=machine.url,
        connection=certificates_connection(read_certificates(machine.cluster.certificates)),
        resource_group=place.group,
    )
    found = runtime_of(agent).inspect_image(image)
    assert found is not None
    place.image = ContainerImage.objects.create(
        reference=image, title="Python", architecture=agent.architecture, apps=[], digest=found.image_id
    )
    return agent


@pytest.fixture
def host(tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


def test_path_is_proven_only_where_it_is_the_same(host: StorageHost, remote: Agent, place: Place) -> None:
    root, images = Path(host.config["root"]), [place.image.digest]
    assert "is local to the portal's machine" in prove(host, remote, images)
    host.reach, host.agent_path = "path", str(root)
    assert prove(host, remote, images) == ""
    host.agent_path = str(root.parent / "elsewhere")
    assert "does not exist" in prove(host, remote, images)
    other = Path(host.agent_path, proof_folder(host, remote).hex)
    other.mkdir(parents=True)
    assert prove(host, remote, images).startswith("What the machine has there is not the host")
    assert list(root.iterdir()) == []


def test_volume_is_proven_and_its_password_never_told(host: StorageHost, remote: Agent, place: Place) -> None:
    images = [place.image.digest]
    host.reach, host.volume_secret = "volume", "hunter2"
    host.volume_options = {"type": "none", "o": "bind", "device": host.config["root"]}
    assert prove(host, remote, images) == ""
    host.volume_options = {"type": "nfs", "o": "addr=127.0.0.1,pw={secret}", "device": ":/folders"}
    error = prove(host, remote, images)
    assert error.startswith("The machine cannot mount it")
    assert "hunter2" not in error
    assert runtime_of(remote).list_volumes({}) == []


@pytest.mark.parametrize("kind", ["path", "volume"])
def test_session_waits_then_reads_and_writes_the_folder_on_the_second_machine(
    host: StorageHost, remote: Agent, place: Place, kind: str
) -> None:
    root = host.config["root"]
    folder = make_folder(place.owner)
    Path(mount_source(folder), "word").write_text("hello")
    service.keep_proofs()
    waiting = place.place(mounts=[{"folder": folder.name, "path": "/home/work/data"}])
    assert (waiting.status, waiting.status_reason) == (Status.PENDING, "storage_unreached")
    options = {"type": "none", "o": "bind", "device": root}
    changes = {"agent_path": root} if kind == "path" else {"volume_options": options}
    service.change_reach(actor=SYSTEM, host_id=host.pk, changes={"reach": kind, **changes})
    service.keep_proofs()

    session = place.run_pending(waiting)
    assert (session.status, str(session.status_message)) == (Status.RUNNING, "Running.")
    kernel = session.kernels.get()
    assert kernel.placed_agent == remote
    line = "cat /home/work/data/word; echo hi >/home/work/data/answer"
    done = runtime_of(remote).run_process(kernel.container_name, ("sh", "-c", line), user="1000:1000")
    assert done.output == b"hello"
    answer = Path(mount_source(folder), "answer")
    assert (answer.read_text(), os.stat(answer).st_uid, os.stat(answer).st_gid) == ("hi\n", 1000, 1000)
    place.end(session)
