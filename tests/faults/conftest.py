"""One portal on two engines of its own for all tests of this folder, somebody with an app open, and an observer."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.faults.engines import OwnEngine
from tests.faults.leftovers import clear_away_abandoned_runs, home_of, left_of, remove_run
from tests.faults.observer import Observer, Watch
from tests.faults.portal import Client, FaultPortal
from tests.faults.proxy import FaultyEngine
from tests.faults.report import REPORT, Row
from tests.faults.visitor import Browser, OpenApp, PageLoop

WITNESS = "witness"


@dataclass(slots=True)
class World:
    """Everything that may break, and those who look at it."""

    home: Path
    engine: OwnEngine
    proxy: FaultyEngine
    portal: FaultPortal
    client: Client
    observer: Observer
    browser: Browser = field(init=False)
    app: OpenApp = field(init=False)
    app_url: str = field(init=False, default="")

    def open_app(self) -> None:
        """Somebody starts a session and opens its app."""
        self.browser = Browser(self.portal.port)
        self.browser.sign_in(self.portal.sign_in_link)
        session_id = self.client.start(name=WITNESS)
        self.client.wait_for([session_id], "RUNNING")
        [app] = self.client.session(session_id)["apps"]
        self.app_url = app["url"]
        self.connect_app()

    def connect_app(self) -> None:
        """Open it, and hold its websocket."""
        from tests.waiting import wait_until

        wait_until(lambda: self.browser.visit(self.app_url) == (200, b"here"), deadline_s=90, interval_s=0.2)
        self.app = OpenApp(self.browser, self.app_url)
        assert self.app.has_survived()

    @contextmanager
    def pages(self) -> Iterator[PageLoop]:
        """The app's page is asked for on one connection meanwhile."""
        loop = PageLoop(self.browser, self.app_url)
        yield loop
        loop.close()

    def end_all_but_the_witness(self) -> None:
        self.client.stop(
            row["id"] for row in self.client.sessions() if row["name"] != WITNESS and is_live(row)
        )


def is_live(row: dict[str, object]) -> bool:
    return row["status"] not in ("TERMINATED", "CANCELLED", "ERROR")


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    clear_away_abandoned_runs()
    home = home_of(os.getpid())
    home.mkdir(mode=0o711)
    try:
        engine = OwnEngine(home, "one", has_live_restore=True)
        engine.start()
        engine.load_image()
        proxy = FaultyEngine(engine.folder, engine.socket)
        portal = FaultPortal(home, proxy)
        portal.begin()
        observer = Observer(portal.database_url, portal.installation, [engine])
        made = World(home, engine, proxy, portal, Client(portal), observer)
        made.open_app()
        yield made
        made.app.close()
    finally:
        remove_run(home)
    assert left_of(home) == []


@dataclass(slots=True)
class Fault:
    """One fault of the matrix, as the report tells of it."""

    world: World
    began_at: float = 0.0
    seen: str = ""

    def begins(self) -> None:
        """The time to recover counts from here."""
        self.began_at = time.monotonic()

    def recovers(self, seen: str) -> float:
        """All is well again, by the observer; seconds since `begins`."""
        self.world.observer.wait_until_settled()
        self.seen = f"{seen} In order again after {time.monotonic() - self.began_at:.0f} s."
        return time.monotonic() - self.began_at


@pytest.fixture
def fault(world: World, request: pytest.FixtureRequest) -> Iterator[Fault]:
    """Around each test: the observer looks for what must never be, and all must be in order at the end. The docstring
    of the test is what was done."""
    watch = Watch(world.observer)
    one = Fault(world)
    one.begins()
    yield one
    world.proxy.heal()
    world.portal.release()
    world.engine.go_on()
    world.end_all_but_the_witness()
    world.observer.wait_until_settled()
    violations = watch.end()
    assert violations == []
    docstring = request.function.__doc__ or ""
    REPORT.append(Row(request.node.name, docstring, one.seen, watch.looks))


@pytest.fixture
def app_survives(world: World) -> Iterator[Callable[[], None]]:
    """For faults of the control plane: an open app is not disturbed."""
    yield lambda: None
    assert world.app.has_survived(), world.app.ended
