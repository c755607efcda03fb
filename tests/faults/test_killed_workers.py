"""Workers are killed at every step of their work, or run in excess."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.faults.conftest import World
from tests.faults.fault import Fault
from tests.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]

AT_ONCE = 8  # threads of a worker


def test_worker_killed_at_every_step(world: World, fault: Fault) -> None:
    """A launch and an end were traced. Then the worker at it got SIGKILL at each point that they had passed: after each answer
    of the engine, after each commit, up to eight sessions being held at a point each."""
    points = traced_points(world)
    assert len(points["launch"]) >= 8
    assert len(points["end"]) >= 5

    fault.begins()
    sessions: list[str] = []
    for some in batches(points["launch"]):
        kill_at(world, "worker", some, lambda: sessions.extend(world.client.start_many(AT_ONCE)))
    world.client.wait_for(sessions, "RUNNING")
    for some in batches(points["end"]):
        kill_at(world, "ends", some, lambda: stop_some(world, sessions))
    world.client.stop(sessions)
    world.client.wait_for(sessions, "TERMINATED")
    assert {world.observer.session(key)["status_reason"] for key in sessions} == {"user_requested"}
    world.demand_app()
    fault.recovers(
        f"{len(points['launch'])} steps of a launch, {len(points['end'])} of an end. All {len(sessions)} sessions ran "
        "once, and ended as asked. The open app noticed nothing."
    )


@pytest.mark.rare
def test_tick_worker_killed_at_every_step(world: World, fault: Fault) -> None:
    """The scheduler's worker got SIGKILL at each point of a tick: after the commit of a placement, and before the launch
    was handed to a worker."""
    world.portal.forget_passed()
    sessions = world.client.start_running()
    points = [point for point in world.portal.passed() if point.startswith("tick.")]
    assert len(points) >= 2

    fault.begins()
    for point in points:
        kill_at(world, "tick", [point], lambda: sessions.append(world.client.start()))
    world.client.wait_for(sessions, "RUNNING")
    world.demand_app()
    fault.recovers(f"{len(points)} steps. Each session was placed once, and ran.")


@pytest.mark.rare
def test_two_of_each_worker_and_two_beats(world: World, fault: Fault) -> None:
    """A second process ran beside each worker and the beat while ten sessions were started and stopped."""
    with ExitStack() as doubles:
        for part in ("worker", "ends", "tick", "beat"):
            doubles.enter_context(doubled(world, part))
        fault.begins()
        sessions = world.client.start_running(10)
        assert [len(world.observer.reasons(key)) for key in sessions] == [5] * 10
        world.client.stop(sessions)
        world.client.wait_for(sessions, "TERMINATED")
        fault.recovers("Every session took each step once.")


@pytest.mark.rare
def test_paused_scheduler_that_goes_on(world: World, fault: Fault) -> None:
    """SIGSTOP for the scheduler after it had committed a placement. A second one started, five more sessions were asked for,
    and then the first went on."""
    world.portal.forget_passed()
    sessions = world.client.start_running()
    point = next(point for point in world.portal.passed() if point.startswith("tick."))
    fault.begins()
    world.portal.hold([point])
    sessions.append(world.client.start())
    wait_until(lambda: point in world.portal.held(), deadline_s=90)
    world.portal.hang("tick")
    with doubled(world, "tick"):
        sessions += world.client.start_many(5)
        world.portal.release()
        world.portal.go_on()
        world.client.wait_for(sessions, "RUNNING")
    assert [len(world.observer.reasons(key)) for key in sessions] == [5] * 7
    fault.recovers("Each session was placed once.")


def traced_points(world: World) -> dict[str, list[str]]:
    """Every point that a launch and an end pass now, by stretch of work."""
    world.portal.forget_passed()
    sessions = world.client.start_running()
    wait_until(lambda: "launch.start_process" in world.portal.passed(), deadline_s=60)
    world.client.stop(sessions)
    world.client.wait_for(sessions, "TERMINATED")
    passed = world.portal.passed()
    return {name: [point for point in passed if point.startswith(f"{name}.")] for name in ("launch", "end")}


def batches(points: list[str]) -> list[list[str]]:
    return [points[start : start + AT_ONCE] for start in range(0, len(points), AT_ONCE)]


def kill_at(world: World, part: str, points: list[str], act: Callable[[], object]) -> None:
    """Hold one session at each point, then kill whoever holds them."""
    world.portal.hold(points)
    act()
    wait_until(lambda: world.portal.held().keys() >= set(points), deadline_s=90)
    world.portal.kill(part)
    world.portal.release()


def stop_some(world: World, sessions: list[str]) -> None:
    running = [key for key in sessions if world.observer.session(key)["status"] == "RUNNING"]
    world.client.stop(running[:AT_ONCE])


@contextmanager
def doubled(world: World, part: str) -> Iterator[None]:
    """Another process beside the supervisor's, of the same command line but for its name."""
    process = Path(f"/proc/{world.portal.wait_for(part)}")
    words = [
        word.decode().replace("@berth", "2@berth") for word in (process / "cmdline").read_bytes().split(b"\0")
    ]
    variables = (process / "environ").read_bytes().decode().split("\0")
    environment = dict(variable.split("=", 1) for variable in variables if "=" in variable)
    second = subprocess.Popen(
        words[:-1],
        env=environment,
        cwd=os.readlink(process / "cwd"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
        assert second.poll() is None
    finally:
        second.send_signal(signal.SIGKILL)
        second.wait(30)
