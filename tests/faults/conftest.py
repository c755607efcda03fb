"""One portal on two engines for all tests of this folder, a user with an open app, and an observer."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.faults.cleanup import begin_run, left_of, remove_run
from tests.faults.engines import OwnEngine
from tests.faults.fault import Fault, observed
from tests.faults.observer import ENDED, Observer
from tests.faults.portal import Client, FaultPortal
from tests.faults.proxy import FaultyEngine
from tests.faults.visitor import Browser, OpenApp, PageLoop
from tests.waiting import wait_until

WITNESS = "witness"
SECOND_DISK_MIB = 128


@dataclass(slots=True)
class World:
    """Everything that may break, and those who look at it. The first engine is asked through a proxy that can lie, and
    restores its containers; the second is asked directly, restores none, and has a small disk."""

    home: Path
    first: OwnEngine
    second: OwnEngine
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
        [session_id] = self.client.start_running(name=WITNESS)
        [app] = self.client.session(session_id)["apps"]
        self.app_url = app["url"]
        self.connect_app()

    def connect_app(self) -> None:
        """Visit its page, and hold its websocket open."""
        wait_until(lambda: self.browser.visit(self.app_url) == (200, b"here"), deadline_s=90, interval_s=0.2)
        self.app = OpenApp(self.browser, self.app_url)
        self.demand_app()

    def demand_app(self) -> None:
        """The same websocket is open still, and speaks."""
        assert self.app.has_survived(), self.app.ended

    @contextmanager
    def pages(self) -> Iterator[PageLoop]:
        """The app's page is asked for on one connection meanwhile."""
        loop = PageLoop(self.browser, self.app_url)
        try:
            yield loop
        finally:
            loop.close()

    def page(self, path: str) -> int:
        """The status of a page of the portal, for a person."""
        return self.browser.visit(f"{self.portal.url}{path}")[0]

    def heal(self) -> None:
        """Nothing is held, stopped or full any more."""
        self.proxy.heal()
        self.portal.release()
        self.second.free_disk()
        for engine in (self.first, self.second):
            engine.go_on()
        self.portal.go_on()
        self.portal.ensure_running()

    def end_all_but_the_witness(self) -> None:
        rows = [row for row in self.client.sessions() if row["status"] not in ENDED]
        self.client.stop(row["id"] for row in rows if row["name"] != WITNESS)


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    home = begin_run(os.getpid())
    try:
        first = OwnEngine(home, "one", has_live_restore=True)
        second = OwnEngine(home, "two", has_live_restore=False, disk_mib=SECOND_DISK_MIB)
        for engine in (first, second):
            engine.start()
        first.load_image()
        proxy = FaultyEngine(first.folder, first.socket)
        portal = FaultPortal(home, proxy.address)
        portal.begin()
        portal.register_second(second.address)
        observer = Observer(portal.database_url, portal.installation, [first, second])
        made = World(home, first, second, proxy, portal, Client(portal), observer)
        made.open_app()
        yield made
        made.app.close()
    finally:
        remove_run(home)
    assert left_of(home) == []


@pytest.fixture
def fault(world: World, request: pytest.FixtureRequest) -> Iterator[Fault]:
    """Around each test; the docstring of the test says what was done."""
    with observed(world.observer, request.node, heal=world.heal, tidy=world.end_all_but_the_witness) as one:
        yield one
