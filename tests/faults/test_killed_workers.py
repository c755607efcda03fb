"""Workers that are killed at every step of a launch, of an end and of a tick."""

import pytest

from tests.faults.conftest import Fault, World
from tests.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

AT_ONCE = 8


def test_worker_killed_at_every_step_of_a_launch_and_of_an_end(world: World, fault: Fault) -> None:
    """SIGKILL for the worker at each point that one launch and one end pass: after every answer of the engine, after
    every commit."""
    points = traced_points(world)
    assert len(points["launch"]) >= 8
    assert len(points["end"]) >= 5

    fault.begins()
    sessions: list[str] = []
    for some in batches(points["launch"]):
        sessions += kill_at(world, some, lambda: world.client.start_many(AT_ONCE))
    world.client.wait_for(sessions, "RUNNING")
    for some in batches(points["end"]):
        kill_at(world, some, lambda: stop_some(world, sessions))
    world.client.stop(sessions)
    world.client.wait_for(sessions, "TERMINATED")
    assert {world.observer.session(key)["status_reason"] for key in sessions} == {"user_requested"}
    assert world.app.has_survived(), world.app.ended
    fault.recovers(
        f"Killed at {len(points['launch'])} steps of a launch and {len(points['end'])} of an end; "
        f"all {len(sessions)} sessions ran once and ended as asked."
    )


def traced_points(world: World) -> dict[str, list[str]]:
    """Every point that a launch and an end pass now, by stretch of work."""
    world.portal.forget_passed()
    session_id = world.client.start()
    world.client.wait_for([session_id], "RUNNING")
    wait_until(lambda: "launch.start_process" in world.portal.passed(), deadline_s=60)
    world.client.stop([session_id])
    world.client.wait_for([session_id], "TERMINATED")
    passed = world.portal.passed()
    return {name: [point for point in passed if point.startswith(f"{name}.")] for name in ("launch", "end")}


def batches(points: list[str]) -> list[list[str]]:
    return [points[start : start + AT_ONCE] for start in range(0, len(points), AT_ONCE)]


def kill_at(world: World, points: list[str], act) -> list[str]:  # type: ignore[no-untyped-def]
    """Hold one session at each point, then kill whoever holds them."""
    world.portal.hold(points)
    made = act()
    wait_until(lambda: world.portal.held().keys() >= set(points), deadline_s=90)
    world.portal.kill("worker")
    world.portal.release()
    return made or []


def stop_some(world: World, sessions: list[str]) -> None:
    running = [key for key in sessions if world.observer.session(key)["status"] == "RUNNING"]
    world.client.stop(running[:AT_ONCE])
