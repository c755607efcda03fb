"""Two webs, two workers and two beats of one installation, of which one each is killed in the middle of work."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.faults.conftest import World
from tests.faults.fault import Fault
from tests.faults.portal import PATIENCE_S, Client, FaultPortal, JoinedPortal
from tests.faults.visitor import Browser, OpenApp
from tests.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.wide, pytest.mark.timeout(600)]

BEATS_WITH_THE_LOCK = """
    SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND application_name = 'berth beat'
"""
MANY = 6  # sessions by each web

numbers = itertools.count()


@pytest.fixture
def web(world: World) -> Iterator[JoinedPortal]:
    yield from joined(world, "web")


@pytest.fixture
def worker(world: World) -> Iterator[JoinedPortal]:
    yield from joined(world, "worker")


def joined(world: World, role: str) -> Iterator[JoinedPortal]:
    portal = JoinedPortal(world.portal, role)
    try:
        portal.start()
        yield portal
    finally:
        portal.end()


def test_one_of_two_of_each_is_killed(
    world: World, web: JoinedPortal, worker: JoinedPortal, fault: Fault
) -> None:
    """Two webs, two workers and two beats ran on one database. While sessions were requested from both webs, started and
    stopped, all processes of the second web and worker got SIGKILL; then, with new ones, web, workers and beat of the first."""
    first, second = world.client, Client(world.portal, web.url)
    assert beats_with_the_lock(world) == 1

    fault.begins()
    sessions = start_by_both(first, second)
    web.kill_supervisor()
    worker.kill_supervisor()
    first.wait_for(sessions, "RUNNING")
    world.demand_app()
    assert beats_with_the_lock(world) == 1

    for portal in (web, worker):
        portal.start()
    browser = Browser(web.port)
    browser.sign_in(world.portal.manage("sign_in_link").strip().splitlines()[-1])
    assert browser.visit(world.app_url) == (200, b"here")
    page = OpenApp(browser, world.app_url)
    with terminal(world.portal, web, browser, sessions[0]) as shell:
        says(shell, "be''fore")
        more = start_by_both(first, second)
        world.portal.kill("web", "worker", "ends", "tick", "beat")
        second.stop(sessions[1:])
        says(shell, "af''ter")
    assert page.has_survived(), page.ended
    page.close()
    second.wait_for(more, "RUNNING")
    second.wait_for(sessions[1:], "TERMINATED")
    assert [len(world.observer.reasons(key)) for key in [sessions[0], *more]] == [5] * (1 + len(more))
    wait_until(lambda: beats_with_the_lock(world) == 1, deadline_s=30)
    world.connect_app()
    fault.recovers(
        f"All {2 * len(sessions)} sessions ran once, those that were stopped ended as asked. App and terminal at the other web "
        "went on. One beat was active before and after."
    )


def start_by_both(first: Client, second: Client) -> list[str]:
    """Request sessions from both webs at the same time."""

    def start(client: Client) -> list[str]:
        return [client.start(name=f"m{next(numbers)}") for _ in range(MANY)]

    with ThreadPoolExecutor(2) as pool:
        return [key for started in pool.map(start, (first, second)) for key in started]


def beats_with_the_lock(world: World) -> int:
    return len(world.observer.rows(BEATS_WITH_THE_LOCK))


def terminal(first: FaultPortal, web: FaultPortal, browser: Browser, session_id: str) -> ClientConnection:
    """Open a terminal at the web, for a person who is signed in at the first portal's address."""
    return connect(
        f"ws://localhost:{web.port}/ws/sessions/{session_id}/terminal/",
        origin=Origin(f"http://localhost:{web.port}"),
        additional_headers={"Cookie": browser.headers(f"localhost:{first.port}")["Cookie"]},
        open_timeout=PATIENCE_S,
    )


def says(shell: ClientConnection, word: str) -> None:
    """The shell echoes a word without its quotes."""
    shell.send(f"echo {word}\r".encode())
    seen, wanted = b"", word.replace("''", "").encode()
    while wanted not in seen:
        message = shell.recv(timeout=30)
        seen += message if isinstance(message, bytes) else message.encode()
