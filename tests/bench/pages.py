"""Measure pages and REST lists on a large portal, seen by a superadmin.

A web process with production settings and data of `seed_demo_load`: 10,000 users, 500 projects,
100,000 sessions (most ended), 1,000 agents, 2,000 folders and 100,000 audit log entries. Server
time is from the request to the last byte of the answer, on the loopback interface, one request at a
time. Paint and load times are Chromium's own, with an empty cache.
"""

import contextlib
import http.client
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from playwright.sync_api import Browser, Page, sync_playwright

from accounts.core.roles import Role
from portal.ops.paths import find_layout
from portal.ops.setup.assets import ensure_assets
from tests import factories
from tests.bench.frame import Measure, Options, Row, measure_in_turns, never_above, say
from tests.bench.gateway_stage import web_process
from tests.bench.own_django import own_database
from tests.ws.stage import sign_in

LISTS = (
    "/dashboard/",
    "/sessions/",
    "/sessions/?tab=ended",
    "/sessions/?tab=ended&page=150",
    "/sessions/?tab=ended&q=train&sort=name",
    "/agents/",
    "/agents/?sort=-cpu&page=10",
    "/data/",
    "/data/?tab=all",
    "/images/",
    "/audit/",
    "/audit/?page=1000",
    "/audit/?q=load-7&outcome=refused",
    "/audit/?action=accounts.sign_in&kind=accounts.user",
    "/profile/activity/",
    "/people/",
    "/people/?page=150",
    "/people/?q=load-77",
    "/projects/",
    "/domains/",
    "/policies/",
    "/budgets/",
    "/api/v1/sessions/",
    "/api/v1/users/",
    "/api/v1/users/?page=200",
    "/api/v1/projects/",
    "/api/v1/domains/",
    "/api/v1/policies/",
    "/api/v1/budgets/",
    "/api/v1/audit/",
)
MUCH = {"people": 10_000, "projects": 500, "sessions": 10_000, "history": 90_000}
SERVER_LIMIT_MS = 100.0
PAINT_LIMIT_MS = 1000.0
LOAD_LIMIT_KB = 200.0
WARM_UP, ASKS = 10, 60
PERCENTILE = 95
CHROMIUM_OPTIONS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


def bench(options: Options) -> list[Row]:
    ensure_assets(find_layout(None), os.environ, say)
    with contextlib.ExitStack() as cleanup:
        environment = cleanup.enter_context(own_database())
        call_command("seed_demo_load", **MUCH)
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")  # autovacuum would do this a minute later
        cookie = sign_in(factories.make_user(role=Role.SUPERADMIN))
        port, _ = cleanup.enter_context(web_process(environment))
        visitor = Visitor(port, cookie)
        measures = [
            Measure(
                f"{path} p95", "ms", visitor.p95_of(path), target=never_above(SERVER_LIMIT_MS), most_rounds=3
            )
            for path in LISTS
        ]
        browser = cleanup.enter_context(chromium(port))
        for path in ("/dashboard/", "/sessions/", "/agents/", "/data/?tab=all", "/images/"):
            seen = Seen(browser, path, cookie)
            paint, load = never_above(PAINT_LIMIT_MS), never_above(LOAD_LIMIT_KB)
            measures.append(Measure(f"{path} first paint", "ms", seen.first_paint_ms, target=paint))
            measures.append(Measure(f"{path} loaded", "KB", seen.loaded_kb, target=load, most_rounds=2))
        return measure_in_turns(measures, options)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Signed-in client of the web process."""

    port: int
    cookie: str

    def p95_of(self, path: str) -> Callable[[], float]:
        def measure() -> float:
            took = self.took_ms(path, WARM_UP + ASKS)[WARM_UP:]
            return statistics.quantiles(took, n=100)[PERCENTILE - 1]

        return measure

    def took_ms(self, path: str, count: int) -> list[float]:
        """Return the durations of `count` requests, one after the other."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            return [self._ask_ms(line, path) for _ in range(count)]
        finally:
            line.close()

    def _ask_ms(self, line: http.client.HTTPConnection, path: str) -> float:
        sent = {
            "Host": urlsplit(settings.BERTH_URL).netloc,
            "Cookie": f"{settings.SESSION_COOKIE_NAME}={self.cookie}",
        }
        began_at = time.perf_counter()
        line.request("GET", path, headers=sent)
        answer = line.getresponse()
        body = answer.read()
        took_ms = (time.perf_counter() - began_at) * 1000
        if answer.status != 200:
            raise SystemExit(f"{path} answered {answer.status}: {body[:300]!r}")
        return took_ms


@contextlib.contextmanager
def chromium(port: int) -> Iterator[Browser]:
    """Start Debian's Chromium, with the portal's host name resolved to this web process."""
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("This bench needs Chromium: apt-get install chromium")
    address = f"--host-resolver-rules=MAP {urlsplit(settings.BERTH_URL).netloc} 127.0.0.1:{port}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*CHROMIUM_OPTIONS, address])
        yield browser
        browser.close()


@dataclass(frozen=True, slots=True)
class Seen:
    """Page in a browser that has never visited the portal."""

    browser: Browser
    path: str
    cookie: str

    def first_paint_ms(self) -> float:
        with self._page() as page:
            page.goto(self.path)
            script = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
            return float(page.wait_for_function(script).json_value())

    def loaded_kb(self) -> float:
        """Return all bytes received, headers and compressed bodies, in kB of 1024."""
        sizes: list[float] = []
        with self._page() as page:
            watch = page.context.new_cdp_session(page)
            watch.send("Network.enable")
            watch.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
            page.goto(self.path, wait_until="load")
            page.wait_for_function("performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
        return sum(sizes) / 1024

    @contextlib.contextmanager
    def _page(self) -> Iterator[Page]:
        # Polling a value would evaluate code in the page, which its policy forbids.
        context = self.browser.new_context(base_url=settings.BERTH_URL, bypass_csp=True)
        cookie = {"name": settings.SESSION_COOKIE_NAME, "value": self.cookie, "url": settings.BERTH_URL}
        context.add_cookies([cookie])  # type: ignore[list-item]
        yield context.new_page()
        context.close()
