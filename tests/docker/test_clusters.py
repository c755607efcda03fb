"""Containers of one session reach each other by name, by SSH without a password, and compute together."""

from uuid import uuid4

import pytest

from agents.runtime.docker.sync_runtime import DockerRuntime
from common.values.resources import ResourceSlots
from sessions_app.core.cluster import ClusterMember
from sessions_app.core.container_spec import (
    ClusterPlan,
    KernelPlan,
    build_container_spec,
    build_network_spec,
    container_name,
    home_volume_name,
)
from sessions_app.launch import cluster_files
from tests import engines
from tests.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.timeout(180)]
MEMBERS = (ClusterMember(0, "main", 1), ClusterMember(1, "sub", 1), ClusterMember(2, "sub", 2))
# A ring of sums over TCP: each rank adds its number, and all learn the total.
ALL_REDUCE = """
import os, socket, time
size, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
mine = 10 ** rank
if rank == 0:
    with socket.create_server(("", address[1])) as server:
        peers = [server.accept()[0] for _ in range(size - 1)]
        total = mine + sum(int(peer.recv(64)) for peer in peers)
        for peer in peers:
            peer.sendall(b"%d" % total)
else:
    while True:
        try:
            peer = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    peer.sendall(b"%d" % mine)
    total = int(peer.recv(64))
print(os.environ["BERTH_CLUSTER_HOST"], "total", total, flush=True)
"""


def plan_of(member: ClusterMember, image: str, session: KernelPlan | None) -> KernelPlan:
    return KernelPlan(
        installation=engines.INSTALLATION,
        session_id=session.session_id if session else uuid4(),
        kernel_id=uuid4(),
        attempt=1,
        session_name="gang",
        project="test",
        kernel_name=member.name,
        image=image,
        command=f"python3 -c '{ALL_REDUCE}'; sleep 600" if member.rank else "sleep 600",
        slots=ResourceSlots({"cpu": 500, "mem": 256 * 2**20}),
        shm_bytes=2**20,
        uid=1000,
        gid=1000,
        network_pool="10.214.0.0/20",
        has_readonly_root=True,
        cluster=ClusterPlan(MEMBERS, member),
    )


@pytest.fixture(scope="module")
def names(runtime: DockerRuntime, image: str) -> list[str]:
    """Return the running containers main1, sub1, sub2, started as a launch starts them."""
    plans: list[KernelPlan] = []
    for member in MEMBERS:
        plans.append(plan_of(member, image, plans[0] if plans else None))
    runtime.ensure_network(build_network_spec(plans[0]))
    for plan in plans:
        runtime.ensure_volume(home_volume_name(plan.kernel_id), engines.LABELS)
        runtime.ensure_container(build_container_spec(plan))
        cluster_files.deliver(plan, runtime)
        runtime.start_container(container_name(plan.kernel_id, 1))
    return [container_name(plan.kernel_id, 1) for plan in plans]


def output(runtime: DockerRuntime, name: str, line: str) -> str:
    done = runtime.run_process(name, ("sh", "-c", line), timeout_s=30)
    return done.output.decode().strip()


def test_containers_compute_one_sum_over_names_of_the_environment(
    runtime: DockerRuntime, names: list[str]
) -> None:
    assert output(runtime, names[0], f"python3 -c '{ALL_REDUCE}'") == "main1 total 111"
    for number, name in ((1, names[1]), (2, names[2])):
        wait_until(lambda: f"sub{number} total 111" in runtime.read_logs(name).decode())  # noqa: B023


def test_ssh_reaches_all_hosts_of_the_hostfile_without_a_password(
    runtime: DockerRuntime, names: list[str]
) -> None:
    assert (
        output(runtime, names[0], 'cat "$BERTH_CLUSTER_HOSTFILE"')
        == "main1 slots=1\nsub1 slots=1\nsub2 slots=1"
    )
    line = 'cut -d" " -f1 "$BERTH_CLUSTER_HOSTFILE" | while read -r host; do ssh -n "$host" hostname; done'
    wait_until(lambda: output(runtime, names[2], line) == "main1\nsub1\nsub2")
    variables = "ssh sub2 'echo $RANK of $WORLD_SIZE at $MASTER_ADDR, $BERTH_CLUSTER_HOST'"
    assert output(runtime, names[0], variables) == "2 of 3 at main1, sub2"
    assert output(runtime, names[0], "ssh sub1 'python3 -c \"print(6 * 7)\"'") == "42"


def test_key_of_another_session_is_refused(runtime: DockerRuntime, names: list[str]) -> None:
    line = (
        "ssh-keygen -q -t ed25519 -N '' -f /tmp/other && "
        "ssh -F none -p 2222 -i /tmp/other -o IdentitiesOnly=yes -o BatchMode=yes "
        "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null sub1 hostname 2>&1"
    )
    assert "Permission denied" in output(runtime, names[0], line)
