"""The portal is away while sessions on machines run, end and vanish."""

import pytest

from tests.cluster.conftest import ClusterWorld
from tests.cluster.observer import MachineEngine
from tests.faults.fault import Fault

pytestmark = [pytest.mark.faults, pytest.mark.wide, pytest.mark.timeout(600)]


def test_portal_away_while_sessions_run_and_end(cluster_world: ClusterWorld, fault: Fault) -> None:
    """The portal was stopped. Meanwhile of six sessions on three machines two ended by themselves, well and badly, and the
    container of one was removed by hand. Then the portal was started."""
    world = cluster_world
    runs = [world.run(machine) for machine in world.machines]
    well = world.run(world.machines[0], command="sleep 5")
    badly = world.run(world.machines[1], command="sleep 5; exit 3")
    removed = world.run(world.machines[2])
    fault.begins()
    assert world.portal.stop() == 0
    for session_id, machine in ((well, 0), (badly, 1)):
        wait_for_exit(world, session_id, machine)
    with MachineEngine(world.machines[2]).client() as client:
        [row] = client.containers(filters={"label": [f"io.berth.session={removed}"]})
        client.remove_container(row["Id"], force=True)
    world.portal.start()
    world.client.wait_for([well, badly], "TERMINATED")
    world.client.wait_for([removed], "ERROR", "TERMINATED")
    ended = {key: world.observer.session(key)["status_reason"] for key in (well, badly, removed)}
    assert ended == {well: "command_finished", badly: "command_failed", removed: "container_lost"}
    assert [world.client.session(key)["status"] for key in runs] == ["RUNNING"] * 3
    fault.recovers("Each end was found with its own cause; three sessions ran on in the same containers.")


def wait_for_exit(world: ClusterWorld, session_id: str, machine: int) -> None:
    with MachineEngine(world.machines[machine]).client() as client:
        for row in client.containers(filters={"label": [f"io.berth.session={session_id}"]}):
            client.wait(row["Id"], timeout=60)
