"""A session on two real machines: one network, names, SSH and a sum, also when an engine is killed."""

from collections.abc import Iterator
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
from portal.ops.cluster.shell import run
from sessions_app.core.states import Status
from sessions_app.models import ClusterNetwork, Kernel
from tests import engines
from tests.docker.test_clusters import ALL_REDUCE
from tests.factories_sessions import Place
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("empty_redis"),
    pytest.mark.docker,
    pytest.mark.wide,  # copies the session image to two machines
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def two_machines(image: str) -> Iterator[list[ClusterMachine]]:
    cluster = Cluster(uuid4().hex[:6])
    try:
        made = machines.bring_up(cluster, 2)
        share_image(image, made, engine=engines.ADDRESS)
        yield made
    finally:
        machines.remove_cluster(cluster)


def shell(kernel: Kernel, line: str) -> str:
    runtime = runtime_of(kernel.placed_agent)
    done = runtime.run_process(kernel.container_name, ("sh", "-c", line), timeout_s=30)
    return done.output.decode().strip()


def links_of(machine: ClusterMachine) -> str:
    return run("ip", "-n", machine.namespace, "-br", "link", "show", "type", "vxlan")


def register(place: Place, image: str, made: list[ClusterMachine]) -> None:
    """Make the two machines the only ones that take sessions."""
    Agent.objects.filter(pk=place.agent.pk).update(state=AgentState.DRAINING)
    connection = certificates_connection(read_certificates(made[0].cluster.certificates))
    for machine in made:
        agent = agent_services.register_agent(
            actor=SYSTEM,
            name=f"real-{machine.number}",
            address=machine.url,
            connection=connection,
            resource_group=place.group,
        )
        digest = runtime_of(agent).inspect_image(image)
        assert digest is not None
    place.image = ContainerImage.objects.create(
        reference=image, title="Python", architecture=agent.architecture, apps=[], digest=digest.image_id
    )


def test_containers_on_two_machines_compute_one_sum_and_outlive_their_engine(
    place: Place, image: str, two_machines: list[ClusterMachine]
) -> None:
    register(place, image, two_machines)
    session = place.run(cluster_size=2, cluster_mode="spread", resources={"cpu": 0.5, "mem": "256m"})
    assert (session.status, str(session.status_message)) == (Status.RUNNING, "Running.")
    main, sub = session.kernels.select_related("agent")
    assert main.agent != sub.agent
    assert shell(main, "ssh -n sub1 hostname; ssh -n sub1 ssh -n main1 hostname") == "sub1\nmain1"
    shell(sub, f"python3 -c '{ALL_REDUCE}' >/tmp/sum 2>&1 &")
    assert shell(main, f"python3 -c '{ALL_REDUCE}'") == "main1 total 11"
    wait_until(lambda: shell(sub, "cat /tmp/sum") == "sub1 total 11")
    # The machine itself stays closed to the session, also by the subnet that both machines share.
    gateways = shell(main, "ip -4 route 2>/dev/null | sed -n 's/^default via \\([0-9.]*\\).*/\\1/p'").split()
    for address in (*gateways, str(two_machines[1].address)):
        reach = f'import socket; socket.create_connection(("{address}", 2376), 3)'
        assert "Error" in shell(main, f"python3 -c '{reach}' 2>&1 | tail -1"), address

    hosting_sub = next(machine for machine in two_machines if machine.url == sub.placed_agent.address)
    machines.kill_engine(hosting_sub)
    assert shell(main, "ssh -n sub1 hostname") == "sub1"
    machines.start_machine(hosting_sub)
    assert shell(main, "ssh -n sub1 hostname") == "sub1"

    assert all("btx" in links_of(machine) for machine in two_machines)
    assert place.end(session).status == Status.TERMINATED
    assert not ClusterNetwork.objects.exists()
    assert not any("btx" in links_of(machine) for machine in two_machines)
