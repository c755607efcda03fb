"""Clock jumps of the portal, PostgreSQL and Redis."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import World
from tests.faults.fault import Fault
from tests.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]

LIBRARY = "libfaketime.so.1"
AHEAD_S, BACK_S = 3 * 3600, -3600


@pytest.fixture
def offset(world: World) -> Iterator[Path]:
    """File that says by how many seconds the clock of the portal is wrong.

    Afterwards the portal runs without it: under libfaketime Python's sleep fails where the clock is
    behind, and whatever waits in the portal with it.
    """
    file = world.home / "clock"
    set_clock(file, 0)
    faked = {
        "LD_PRELOAD": faketime(),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    before = dict(world.portal.environment)
    restart(world, {**before, **faked})
    yield file
    restart(world, before)


def restart(world: World, environment: dict[str, str]) -> None:
    world.portal.kill_supervisor()
    world.portal.environment = environment
    world.portal.start()
    world.connect_app()


@pytest.mark.rare
def test_clock_set_ahead_and_back_during_launches(world: World, offset: Path, fault: Fault) -> None:
    """The clock of the portal and its databases was set three hours ahead while the engine kept four launches waiting,
    and then an hour behind the true time while four more were launched."""
    seen = world.portal.beats()

    fault.begins()
    waits = world.proxy.hang(r"POST \S+/containers/create")
    sessions = world.client.start_many(4)
    wait_until(lambda: waits.hits, deadline_s=90)
    set_clock(offset, AHEAD_S)
    wait_until(lambda: world.portal.beats() > seen + 2, deadline_s=90)
    world.proxy.heal()
    world.client.wait_for(sessions, "RUNNING")
    world.demand_app()

    set_clock(offset, BACK_S)
    seen = world.portal.beats()
    sessions += world.client.start_running(4)
    wait_until(lambda: world.portal.beats() > seen + 2, deadline_s=90)
    world.client.stop(sessions)
    world.client.wait_for(sessions, "TERMINATED")
    world.demand_app()
    fault.recovers("No launch was ended for it, the beat went on, the app noticed nothing.")


def set_clock(file: Path, offset_s: int) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(f"{offset_s:+d}\n")
    fresh.rename(file)


def faketime() -> str:
    """Debian's libfaketime."""
    for folder in Path("/usr/lib").glob("*/faketime"):
        if (folder / LIBRARY).exists():
            return str(folder / LIBRARY)
    raise AssertionError("The clock's tests need libfaketime: apt-get install faketime")
