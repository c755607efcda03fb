"""Machines lose power, cables, answers, disks and their identity."""

import subprocess
import threading
from collections.abc import Callable
from itertools import cycle, islice

import docker
import pytest

from portal.ops.cluster import machines, network
from portal.ops.cluster.layout import ClusterMachine
from tests.cluster.conftest import GRACE_S, HEALED_S, NOTICED_S, ClusterWorld
from tests.cluster.observer import MachineEngine
from tests.faults.fault import Fault
from tests.faults.observer import Row
from tests.waiting import wait_until

# Three engines and a portal of their own: too much for every run.
pytestmark = [pytest.mark.faults, pytest.mark.wide, pytest.mark.timeout(600)]

DECIDED_S = GRACE_S + 10
FLAPS, FLAP_S = 3, 7
SLOW_S = 45


def test_machine_loses_power(cluster_world: ClusterWorld, fault: Fault) -> None:
    """The power of a machine went off while a session and one with `requeues` ran there; later it came back."""
    world, machine = cluster_world, cluster_world.machines[0]
    ends, moves = world.run(machine), world.run(machine, may_run_elsewhere=True, requeues=True)
    fault.begins()
    machines.power_off(machine)
    noticed_s, decided_s = lose(world, fault, machine, [ends], [moves])
    assert world.client.session(moves)["status"] == "RUNNING"
    machines.start_machine(machine)
    back_s = come_back(world, fault, machine)
    fault.recovers(
        f"Lost after {noticed_s:.0f} s, decided after {decided_s:.0f} s: one session ended as lost, the other ran on "
        f"another machine. Connected {back_s:.0f} s after its engine answered."
    )


@pytest.mark.parametrize("direction", ["", "in", "out"])
def test_machine_is_cut_off(cluster_world: ClusterWorld, fault: Fault, direction: str) -> None:
    """The cable of a machine was pulled out, or carried packets one way only, for longer than the grace, while sessions
    ran there; then it was plugged in."""
    world, machine = cluster_world, cluster_world.machines[1]
    ends, moves = world.run(machine), world.run(machine, may_run_elsewhere=True, requeues=True)
    fault.begins()
    network.pull_out(machine, direction)
    noticed_s, decided_s = lose(world, fault, machine, [ends], [moves])
    assert {row["Labels"]["io.berth.session"] for row in running_on(machine)} >= {ends, moves}
    network.plug_in(machine)
    back_s = come_back(world, fault, machine)
    wait_until(lambda: not running_on(machine), deadline_s=30)
    fault.recovers(
        f"Lost after {noticed_s:.0f} s, decided after {decided_s:.0f} s. Connected {back_s:.0f} s after the cable was "
        "plugged in; the containers that had run on were stopped and removed."
    )


def test_machine_is_cut_off_for_less_than_the_grace(cluster_world: ClusterWorld, fault: Fault) -> None:
    """The cable of a machine was pulled out until it was lost, and plugged in before its sessions were decided."""
    world, machine = cluster_world, cluster_world.machines[1]
    session_id = world.run(machine)
    [before] = running_on(machine)
    fault.begins()
    network.pull_out(machine)
    world.wait_until_lost(machine)
    network.plug_in(machine)
    back_s = come_back(world, fault, machine)
    assert world.client.session(session_id)["status"] == "RUNNING"
    assert [row["Id"] for row in running_on(machine)] == [before["Id"]]
    fault.recovers(f"Connected {back_s:.0f} s after the cable was plugged in; the session never noticed.")


def test_cable_flaps(cluster_world: ClusterWorld, fault: Fault) -> None:
    """A cable was pulled out and plugged in every seven seconds, three times, while sessions were asked for there."""
    world, machine = cluster_world, cluster_world.machines[2]
    fault.begins()
    sessions: list[str] = []
    for change in islice(cycle((network.pull_out, network.plug_in)), 2 * FLAPS):
        change(machine)
        sessions.append(world.start(machine))
        stays(lambda: not world.is_lost(machine), FLAP_S)
    world.client.wait_for(sessions, "RUNNING")
    fault.recovers("The machine was never lost, and each session ran once.")


def test_slow_and_lossy_link(cluster_world: ClusterWorld, fault: Fault) -> None:
    """The link of a machine carried 256 kbit/s and lost 15 % of its packets for three quarters of a minute and more, while
    sessions were started and stopped there."""
    world, machine = cluster_world, cluster_world.machines[2]
    fault.begins()
    network.slow_down(machine)
    sessions = [world.start(machine) for _ in range(2)]
    stays(lambda: not world.is_lost(machine), SLOW_S)
    world.client.wait_for(sessions, "RUNNING")
    world.client.stop(sessions)
    world.client.wait_for(sessions, "TERMINATED", "CANCELLED")
    assert not world.is_lost(machine)
    network.plug_in(machine)
    fault.recovers("The machine was never lost; the sessions ran and ended.")


def test_engine_hangs_for_longer_than_the_grace(cluster_world: ClusterWorld, fault: Fault) -> None:
    """SIGSTOP for the engine of a machine with sessions; meanwhile others ran on the other machines; then it went on."""
    world, machine, well = cluster_world, cluster_world.machines[0], cluster_world.machines[1]
    ends, moves = world.run(machine), world.run(machine, may_run_elsewhere=True, requeues=True)
    fault.begins()
    machines.pause_engine(machine)
    meanwhile = world.run(well)
    noticed_s, decided_s = lose(world, fault, machine, [ends], [moves])
    machines.unpause_engine(machine)
    back_s = come_back(world, fault, machine)
    assert world.client.session(meanwhile)["status"] == "RUNNING"
    fault.recovers(
        f"Lost after {noticed_s:.0f} s, decided after {decided_s:.0f} s, connected {back_s:.0f} s after it went on; the "
        "others noticed nothing, and what had run on was removed."
    )


def test_engine_killed_and_started(cluster_world: ClusterWorld, fault: Fault) -> None:
    """SIGKILL for the engine of a remote machine with live-restore and a session; it was started within the grace."""
    world, machine = cluster_world, cluster_world.machines[0]
    session_id = world.run(machine)
    [before] = running_on(machine)
    fault.begins()
    machines.kill_engine(machine)
    world.wait_until_lost(machine)
    noticed_s = fault.lasted_s()
    machines.start_machine(machine)
    back_s = come_back(world, fault, machine)
    assert noticed_s <= NOTICED_S
    assert world.client.session(session_id)["status"] == "RUNNING"
    assert [row["Id"] for row in running_on(machine)] == [before["Id"]]
    fault.recovers(
        f"Lost after {noticed_s:.0f} s, connected {back_s:.0f} s after the start. Its session was adopted and ran on."
    )


def test_another_machine_at_the_address(cluster_world: ClusterWorld, fault: Fault) -> None:
    """A machine with a session was replaced by another one, with its address, name and certificates and an empty disk."""
    world, machine = cluster_world, cluster_world.machines[2]
    session_id = world.run(machine)
    fault.begins()
    machines.replace_machine(machine)
    lose(world, fault, machine, [session_id], [])
    assert "Another engine" in world.observer.agent(machine.name)["last_error"]
    world.give_image(machine)
    world.register(machine)
    world.wait_until_connected(machine)
    world.run(machine)
    fault.recovers(
        "It was not taken for the old one, whose session ended as lost. Registered anew, it took sessions."
    )


def test_same_engine_registered_twice(cluster_world: ClusterWorld, fault: Fault) -> None:
    """A machine was registered a second time, under another name."""
    world, machine = cluster_world, cluster_world.machines[0]
    world.run(machine)
    fault.begins()
    command = ("register_agent", "twin", machine.url, "--tls", str(machine.cluster.certificates))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        world.portal.manage(*command)
    assert f"“{machine.name}”" in refused.value.stderr or "Another agent" in refused.value.stderr
    assert "twin" not in world.client.agents()
    fault.recovers("Refused, with the name of the agent that it is already.")


def test_disk_of_a_machine_is_full(cluster_world: ClusterWorld, fault: Fault) -> None:
    """The disk of a machine was filled to the last byte while a session ran there; another was asked for; then it was
    freed."""
    world, machine = cluster_world, cluster_world.machines[1]
    runs = world.run(machine)
    fault.begins()
    machines.fill_disk(machine)
    refused = world.start(machine)
    world.client.wait_for([refused], "ERROR")
    assert world.observer.session(refused)["status_reason"] in ("no_room_on_agent", "engine_refused")
    world.client.stop([runs])
    machines.free_disk(machine)
    world.client.wait_for([runs], "TERMINATED")
    world.run(machine)
    fault.recovers(
        "The new session ended with that cause, the other was stopped in order; afterwards all went on."
    )


def test_machine_loses_power_during_ten_launches(cluster_world: ClusterWorld, fault: Fault) -> None:
    """Ten sessions were asked for on three machines; in the middle of it one lost its power, and the whole portal got
    SIGKILL. Both were started again."""
    world, machine = cluster_world, cluster_world.machines[0]
    fault.begins()
    sessions = [world.start(requeues=True) for _ in range(10)]
    machines.power_off(machine)
    world.portal.kill_supervisor()
    starting = threading.Thread(target=machines.start_machine, args=(machine,))
    starting.start()
    world.portal.start()
    starting.join()
    world.wait_until_connected(machine)
    wait_until(lambda: all(is_decided(world, key) for key in sessions), deadline_s=120, interval_s=0.5)
    run = [world.client.session(key)["status"] for key in sessions].count("RUNNING")
    assert run >= 1
    fault.recovers(f"{run} of ten ran, each once; {10 - run} had started on the machine before, and ended.")


def lose(
    world: ClusterWorld, fault: Fault, machine: ClusterMachine, ends: list[str], moves: list[str]
) -> tuple[float, float]:
    """Wait until the machine is lost and its sessions are decided; the seconds of both since the fault."""
    world.wait_until_lost(machine)
    noticed_s = fault.lasted_s()
    assert noticed_s <= NOTICED_S
    world.client.wait_for(ends, "ERROR")
    assert {world.observer.session(key)["status_reason"] for key in ends} <= {"agent_lost"}
    decided_s = fault.lasted_s()
    assert decided_s - noticed_s <= DECIDED_S
    world.client.wait_for(moves, "RUNNING")
    return noticed_s, decided_s


def come_back(world: ClusterWorld, fault: Fault, machine: ClusterMachine) -> float:
    """Wait until the healed machine is connected; the seconds since now."""
    healed_s = fault.lasted_s()
    world.wait_until_connected(machine)
    back_s = fault.lasted_s() - healed_s
    assert back_s <= HEALED_S
    return back_s


def running_on(machine: ClusterMachine) -> list[Row]:
    """Containers of sessions that run there, whoever may reach it."""
    try:
        with MachineEngine(machine).client() as client:
            return list(client.containers(filters={"label": ["io.berth.session"]}))
    except docker.errors.DockerException:
        return []


def is_decided(world: ClusterWorld, session_id: str) -> bool:
    return world.client.session(session_id)["status"] in ("RUNNING", "ERROR", "TERMINATED")


def stays(holds: Callable[[], bool], seconds: float) -> None:
    """Check again and again that something holds so long."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.5)):
        assert holds()
        pause.wait(0.5)
