"""Images come to real machines: copied from another one, and pulled from a registry that asks for a password."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import docker
import pytest

from agents.connections.service import certificates_connection
from agents.machine_images import removal, runner
from agents.machine_images.transfers import request_transfer
from agents.machines import service as agent_services
from agents.management.commands.register_agent import read_certificates
from agents.models import Agent, ResourceGroup
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.selectors import runtime_of
from common.actors import SYSTEM
from images.models import ContainerImage, Registry
from portal.ops.cluster import machines
from portal.ops.cluster.images import share_image
from portal.ops.cluster.layout import Cluster, ClusterMachine
from tests import engines
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.docker,
    pytest.mark.wide,  # two engines and a registry
    pytest.mark.timeout(300),
]
PORT = 5000
HOST = f"127.0.0.1:{PORT}"  # engines need no TLS to their own machine
# of the user "puller" with the password "s3cret"
HTPASSWD = "puller:$2b$04$abcdefghijklmnopqrstuuLZYjhNQAOdpbzt4WxWlUHjv1wsyH5DG\n"
CONFIGURATION = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {home}/data}}}}
http: {{addr: "{host}"}}
auth: {{htpasswd: {{realm: test, path: {home}/htpasswd}}}}
"""


@pytest.fixture(scope="module")
def two_machines(runtime: DockerRuntime) -> Iterator[list[ClusterMachine]]:
    """Two engines, of which the first has the tiny image."""
    cluster = Cluster(uuid4().hex[:6])
    try:
        made = machines.bring_up(cluster, 2)
        share_image(engines.TINY_IMAGE, made[:1], engine=engines.ADDRESS)
        yield made
    finally:
        machines.remove_cluster(cluster)


@pytest.fixture
def agents(two_machines: list[ClusterMachine]) -> list[Agent]:
    group = ResourceGroup.objects.create(name="images")
    connection = certificates_connection(read_certificates(two_machines[0].cluster.certificates))
    return [
        agent_services.register_agent(
            actor=SYSTEM,
            name=machine.name,
            address=machine.url,
            connection=connection,
            resource_group=group,
        )
        for machine in two_machines
    ]


@pytest.fixture
def registry(two_machines: list[ClusterMachine], tmp_path: Path) -> Iterator[str]:
    """A registry on the second machine, with the tiny image; return its name there."""
    program = shutil.which("docker-registry")
    assert program, "Needs docker-registry: apt-get install docker-registry"
    (tmp_path / "htpasswd").write_text(HTPASSWD)
    (tmp_path / "config.yml").write_text(CONFIGURATION.format(home=tmp_path, host=HOST))
    inside = ("ip", "netns", "exec", two_machines[1].namespace)
    server = subprocess.Popen([*inside, program, "serve", str(tmp_path / "config.yml")])
    reference = f"{HOST}/team/tiny:1"
    try:
        with docker.APIClient(f"unix://{two_machines[1].socket}") as client:
            share_image(engines.TINY_IMAGE, two_machines[1:], engine=engines.ADDRESS)
            client.tag(engines.TINY_IMAGE, reference.rpartition(":")[0], "1")
            login = {"username": "puller", "password": "s3cret"}
            wait_until(lambda: "errorDetail" not in client.push(reference, auth_config=login))
            client.remove_image(reference)
            client.remove_image(engines.TINY_IMAGE)
        yield reference
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def test_image_is_copied_from_machine_to_machine_and_removed_again(agents: list[Agent]) -> None:
    source, target = agents
    image = ContainerImage.objects.create(reference=engines.TINY_IMAGE, architecture=source.architecture)
    transfer = request_transfer(target, image.reference)
    runner.carry_out(target.pk)
    transfer.refresh_from_db()
    assert (transfer.state, transfer.source, transfer.error) == ("done", source, "")
    there = runtime_of(target).inspect_image(image.reference)
    kept = runtime_of(source).inspect_image(image.reference)
    assert there
    assert kept
    assert there.image_id == kept.image_id
    assert transfer.total_bytes > 2**20
    removal.remove_image(actor=SYSTEM, agent_id=target.pk, reference=image.reference)
    assert runtime_of(target).inspect_image(image.reference) is None


def test_image_is_pulled_with_the_password_of_its_registry(agents: list[Agent], registry: str) -> None:
    target = agents[1]
    row = Registry(name="own", host=HOST, url=f"http://{HOST}", username="puller")
    row.set_password("wrong")
    row.save()
    ContainerImage.objects.create(reference=registry, architecture=target.architecture, registry=row)
    refused = request_transfer(target, registry)
    runner.carry_out(target.pk)
    refused.refresh_from_db()
    assert (refused.state, refused.error_code) == ("failed", "image_pull_failed")

    row.set_password("s3cret")
    row.save()
    pulled = request_transfer(target, registry)
    runner.carry_out(target.pk)
    pulled.refresh_from_db()
    assert (pulled.state, pulled.error, pulled.source) == ("done", "", None)
    assert runtime_of(target).inspect_image(registry)
