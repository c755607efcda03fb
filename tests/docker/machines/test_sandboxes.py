"""A group's sandbox on real engines: one has a second runc under the name of gVisor's runtime."""

import json
import os
import signal

import pytest

from agents.machines.probing import discover
from agents.machines.service import refresh_agent
from agents.models import Agent
from agents.resource_groups.service import update_resource_group
from agents.selectors import runtime_of
from common.actors import SYSTEM
from portal.ops.cluster.engine import engine_pid
from portal.ops.cluster.layout import ClusterMachine
from tests.factories_sessions import Place
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("empty_redis"),
    pytest.mark.docker,
    pytest.mark.wide,  # copies the session image to two machines
    pytest.mark.timeout(300),
]


def register_runtime(machine: ClusterMachine) -> None:
    """Have the engine reload its settings with one more runtime."""
    settings = machine.home / "daemon.json"
    told = json.loads(settings.read_text()) | {"runtimes": {"runsc": {"path": "runc"}}}
    settings.write_text(json.dumps(told))
    process = engine_pid(machine)
    assert process is not None
    os.kill(process, signal.SIGHUP)


def test_sessions_start_in_the_sandbox_of_their_group_where_a_machine_has_it(
    place: Place, two_machines: list[ClusterMachine]
) -> None:
    register_runtime(two_machines[0])
    agent = Agent.objects.get(name="real-1")

    def has_sandbox() -> bool:
        return refresh_agent(actor=SYSTEM, agent_id=agent.pk).sandboxes == ["gvisor"]

    wait_until(has_sandbox)
    update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"sandbox": "gvisor"})
    session = place.run(name="far", resources={"cpu": 0.5, "mem": "256m"})
    assert session.status == "RUNNING", session.status_message
    kernel = session.kernels.get()
    assert kernel.placed_agent == agent  # the other one lacks it
    runtime = runtime_of(agent)
    client = runtime.connection.client()  # type: ignore[attr-defined]
    assert client.inspect_container(kernel.container_name)["HostConfig"]["Runtime"] == "runsc"
    assert runtime.run_process(kernel.container_name, ["hostname"]).output == b"main1\n"
    place.end(session)


def test_a_machine_tells_its_topology_and_its_disk(place: Place) -> None:
    agent = Agent.objects.get(name="real-2")
    found = discover(agent, [], [place.image.digest])
    assert found.topology["threads"] == os.cpu_count()
    assert 0 < found.disk["free_bytes"] < found.disk["size_bytes"]
