"""Engines are killed, hang, give wrong answers, fill up and lack images."""

import psycopg
import pytest

from tests.faults.conftest import World
from tests.faults.fault import Fault
from tests.faults.portal import SECOND
from tests.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]

KILLS = r"POST \S+/(stop|kill)|DELETE \S+/containers/"


def test_engine_killed_during_launches(world: World, fault: Fault) -> None:
    """SIGKILL for an engine with live-restore in the middle of four launches; it was started again."""
    fault.begins()
    sessions = world.client.start_many(4)
    world.first.kill()
    world.demand_app()
    world.first.start()
    world.client.wait_for(sessions, "RUNNING")
    world.demand_app()
    fault.recovers("Launches waited and went on; containers and the open app noticed nothing.")


def test_engine_hung_during_launches(world: World, fault: Fault) -> None:
    """SIGSTOP for the engine in the middle of four launches, until its silence was noticed; then it went on."""
    fault.begins()
    sessions = world.client.start_many(4)
    world.first.hang()
    wait_until(lambda: agent_errors(world)[0], deadline_s=90)
    world.demand_app()
    world.first.go_on()
    world.client.wait_for(sessions, "RUNNING")
    world.demand_app()
    fault.recovers("The machine was marked silent, the app noticed nothing, and all ran once it went on.")


@pytest.mark.rare
def test_engine_restarted_without_live_restore(world: World, fault: Fault) -> None:
    """An engine without live-restore was restarted in order, which ends its containers, and then killed and started."""
    world.second.load_image()
    gone_down, ended_by_it = {"agent_lost"}, {"agent_lost", "container_exited", "container_lost"}
    # Of containers that outlive a killed engine the next one finds out, and ends them: its life began before.
    for how, expected in ((world.second.stop, gone_down), (world.second.kill, ended_by_it)):
        sessions = world.client.start_running(2, resource_group=SECOND)
        fault.begins()
        how()
        world.second.start()
        world.client.wait_for(sessions, "TERMINATED", "ERROR")
        reasons = {world.observer.session(key)["status_reason"] for key in sessions}
        assert reasons <= expected, reasons
    world.demand_app()
    fault.recovers("Its sessions ended, with that cause; those of the other machine noticed nothing.")


@pytest.mark.rare
def test_one_hung_engine_does_not_delay_another(world: World, fault: Fault) -> None:
    """SIGSTOP for one of two engines, twelve launches asked for on it, then six on the other, while the first hung on."""
    world.second.load_image()
    stuck = world.client.start_many(4, resource_group=SECOND)
    fault.begins()
    world.second.hang()
    stuck += world.client.start_many(8, resource_group=SECOND)
    well = world.client.start_running(6)
    world.client.stop(well)
    world.client.wait_for(well, "TERMINATED")
    world.second.go_on()
    world.client.wait_for(stuck, "RUNNING")
    world.demand_app()
    fault.recovers("Six sessions ran and ended on the healthy machine meanwhile; the twelve ran afterwards.")


@pytest.mark.rare
def test_engine_that_answers_slowly(world: World, fault: Fault) -> None:
    """Every call to the engine took half a second longer while four sessions were started and stopped."""
    fault.begins()
    world.proxy.delay("", 0.5)
    sessions = world.client.start_running(4)
    world.client.stop(sessions)
    world.client.wait_for(sessions, "TERMINATED")
    world.demand_app()
    fault.recovers("All ran and ended.")


def test_answers_of_the_engine_lost(world: World, fault: Fault) -> None:
    """The engine did as it was asked, and the connection broke before it could say so: for making networks, volumes and
    containers, for starting, and for removing them."""
    making = world.proxy.lose_answers(r"POST \S+/(networks|volumes|containers)/create|POST \S+/start$")
    fault.begins()
    sessions = world.client.start_many(2)
    wait_until(lambda: making.hits >= 8, deadline_s=120)
    world.proxy.heal()
    world.client.wait_for(sessions, "RUNNING")
    removing = world.proxy.lose_answers("DELETE ")
    world.client.stop(sessions)
    wait_until(lambda: removing.hits >= 4, deadline_s=120)
    world.proxy.heal()
    world.client.wait_for(sessions, "TERMINATED")
    fault.recovers("Nothing was made twice, nothing stayed.")


@pytest.mark.rare
def test_container_that_cannot_be_killed(world: World, fault: Fault) -> None:
    """The engine could not stop, kill or remove a container, and the deadline of the end passed (it was moved)."""
    [session_id] = world.client.start_running()
    fault.begins()
    refused = world.proxy.refuse(KILLS, "tried to kill container, but did not receive an exit event")
    world.client.stop([session_id])
    wait_until(lambda: refused.hits, deadline_s=90)
    with psycopg.connect(world.portal.database_url) as connection:
        connection.execute(
            "UPDATE sessions_app_computesession SET deadline_at = now() - interval '1 second' WHERE id = %s",
            [session_id],
        )
    wait_until(
        lambda: "its resources stay allocated" in world.client.session(session_id)["status_message"],
        deadline_s=90,
    )
    assert world.client.session(session_id)["status"] == "TERMINATING"
    assert world.observer.violations() == []
    world.proxy.heal()
    world.client.wait_for([session_id], "TERMINATED")
    assert world.observer.session(session_id)["status_reason"] == "user_requested"
    fault.recovers("It kept its places, said why, and ended when the container could be killed.")


def test_container_removed_by_hand(world: World, fault: Fault) -> None:
    """The container of a running session was removed by `docker rm -f`."""
    [session_id] = world.client.start_running()
    with world.first.client() as client:
        [row] = client.containers(filters={"label": [f"io.berth.session={session_id}"]})
        fault.begins()
        client.remove_container(row["Id"], force=True)
    world.client.wait_for([session_id], "ERROR", "TERMINATED", deadline_s=30)
    assert world.observer.session(session_id)["status_reason"] == "container_lost"
    fault.recovers("The session ended, and says that somebody removed its container.")


@pytest.mark.rare
def test_image_missing(world: World, fault: Fault) -> None:
    """Two sessions were placed on a machine that had lost their image; the other machine has it."""
    world.second.remove_image()
    fault.begins()
    sessions = world.client.start_many(2, resource_group=SECOND)
    world.client.wait_for(sessions, "RUNNING")
    fault.recovers("Both waited for one copy from the other machine, and ran.")


@pytest.mark.rare
def test_disk_full(world: World, fault: Fault) -> None:
    """The disk of an engine was filled to the last byte while a session ran there; another was asked for; then the disk
    was freed."""
    world.second.load_image()
    [running] = world.client.start_running(resource_group=SECOND)
    fault.begins()
    world.second.fill_disk()
    [refused] = world.client.start_many(1, resource_group=SECOND)
    world.client.wait_for([refused], "ERROR")
    assert world.observer.session(refused)["status_reason"] in ("no_room_on_agent", "engine_refused")
    world.client.stop([running])
    world.second.free_disk()
    world.client.wait_for([running], "TERMINATED")
    world.client.start_running(resource_group=SECOND)
    fault.recovers(
        "The new session ended with that cause; the other was stopped in order; afterwards all went on."
    )


def agent_errors(world: World) -> list[str]:
    """What the machines' last heartbeats say, the proxied one first."""
    rows = world.observer.rows("SELECT last_error FROM agents_agent ORDER BY id")
    return [row["last_error"] for row in rows]
