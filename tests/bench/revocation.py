"""Measure how long connections stay open after access was revoked: the slowest of all kinds.

Covers each way in which access ends, on a web process with production settings and a simulated
engine. Each way is measured with the revocation broadcast, and the first two also without it, as if
Redis were down: then processes find out by their periodic check.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Self

import aiohttp
from asgiref.sync import sync_to_async
from django.conf import settings

from accounts.models import BrowserLogin, KeyPair, Membership
from agents.runtime.registry import close_async_runtimes
from common.messaging import access_revocation
from sessions_app.gateway.auth.authorizer import open_connections
from sessions_app.gateway.proxy.app_proxy import AppProxy
from tests import factories
from tests.bench.frame import Measure, Options, Row, measure_in_turns, never_above, say
from tests.bench.own_django import own_database
from tests.ws.servers import serve_app, serve_asgi
from tests.ws.stage import Browser, Stage, sample_app, set_stage, signed_in

LIMIT_S = 5.0
GIVE_UP_S = 30.0
in_thread = sync_to_async(thread_sensitive=False)
Way = Callable[[Stage], None]


def stop_session(stage: Stage) -> None:
    stage.stop()


def sign_out(stage: Stage) -> None:
    for session in BrowserLogin.objects.all():
        session.delete()


def change_password(stage: Stage) -> None:
    stage.owner.set_password("another quiet harbour")
    stage.owner.save(update_fields=["password"])


def close_account(stage: Stage) -> None:
    stage.owner.is_active = False
    stage.owner.save(update_fields=["is_active"])


def take_membership(stage: Stage) -> None:
    Membership.objects.get(user=stage.owner).delete()


def close_project(stage: Stage) -> None:
    project = stage.cluster.project
    project.is_active = False
    project.save(update_fields=["is_active"])


def close_domain(stage: Stage) -> None:
    domain = stage.owner.domain
    domain.is_active = False
    domain.save(update_fields=["is_active"])


def revoke_token(stage: Stage) -> None:
    for keypair in KeyPair.objects.filter(user=stage.owner):
        keypair.delete()


# Kinds of connections that end: those inside of the session, of the browser's sign-in, of the
# token.
INSIDE = frozenset({"app stream", "app websocket", "terminal", "exec"})
OF_BROWSER = frozenset({"app stream", "app websocket", "terminal", "events by sign-in", "log by sign-in"})
OF_TOKEN = frozenset({"exec", "events by token", "log by token"})
WAYS: tuple[tuple[str, Way, frozenset[str]], ...] = (
    ("session stopped", stop_session, INSIDE),
    ("signed out", sign_out, OF_BROWSER),
    ("new password", change_password, OF_BROWSER),
    ("account closed", close_account, OF_BROWSER | OF_TOKEN),
    ("membership lost", take_membership, INSIDE),
    ("project closed", close_project, INSIDE),
    ("domain closed", close_domain, OF_BROWSER | OF_TOKEN),
    ("token revoked", revoke_token, OF_TOKEN),
)


def bench(options: Options) -> list[Row]:
    with own_database():
        measures = [
            Measure(name, "s", Once(way, kinds).measure, target=never_above(LIMIT_S), most_rounds=2)
            for name, way, kinds in WAYS
        ]
        measures += [
            Measure(
                f"{name}, word lost",
                "s",
                Once(way, kinds, is_word_lost=True).measure,
                target=never_above(LIMIT_S),
                most_rounds=2,
            )
            for name, way, kinds in WAYS[:2]
        ]
        return measure_in_turns(measures, options)


class Once:
    """Measurement of one way to end access, repeated by each call."""

    def __init__(self, way: Way, kinds: frozenset[str], *, is_word_lost: bool = False) -> None:
        self._way = way
        self._kinds = kinds
        self._is_word_lost = is_word_lost

    def measure(self) -> float:
        stage = set_stage()
        token = factories.make_token(stage.owner)
        with word_lost() if self._is_word_lost else contextlib.nullcontext():
            return asyncio.run(self._slowest(stage, token))

    async def _slowest(self, stage: Stage, token: str) -> float:
        """Return the seconds from the change to the end of the last affected connection."""
        open_connections.cache_clear()
        from portal.processes.asgi import portal_application

        proxy = AppProxy(apps_domain=settings.BERTH_APPS_DOMAIN, fallback=portal_application)
        async with serve_app(sample_app()) as app_port, serve_asgi(proxy, pre_app_handler=proxy) as port:
            await in_thread(stage.run_container)()
            async with (
                aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http,
                Connections(Browser(port, http), stage, token, app_port) as connections,
            ):
                await in_thread(self._way)(stage)
                began_at = time.monotonic()
                ended = await connections.ends(self._kinds)
        await proxy.close()
        await close_async_runtimes()
        slowest = max(ended, key=lambda kind: ended[kind])
        say(f"slowest: {slowest}")
        return ended[slowest] - began_at


@contextlib.contextmanager
def word_lost() -> Iterator[None]:
    ring, access_revocation._broadcast = access_revocation._broadcast, lambda: None
    try:
        yield
    finally:
        access_revocation._broadcast = ring


class Connections:
    """One open connection of each kind, with the time of its end."""

    def __init__(self, browser: Browser, stage: Stage, token: str, app_port: int) -> None:
        self._browser = browser
        self._stage = stage
        self._bearer = {"Authorization": f"Bearer {token}"}
        self._app = stage.host(f"p{app_port}")
        self._portal = settings.BERTH_URL.partition("://")[2]
        self._ended_at: dict[str, float] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._cleanup = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        browser, session_id = self._browser, self._stage.session.pk
        portal_cookie = (await signed_in(browser, self._stage.owner)).cookies.popitem()[1]
        browser.cookies[self._portal] = portal_cookie
        answer = await browser.visit(self._app)
        if answer.status != 200:
            raise SystemExit(f"The app did not open: {answer.status} {answer.text[:300]}")
        cookie = self._header(self._portal)
        log = f"/api/v1/sessions/{session_id}/logs/?follow=1"
        await self._read("app stream", self._app, "/stream", self._header(self._app))
        await self._read("events by sign-in", self._portal, "/api/v1/events/", cookie)
        await self._read("events by token", self._portal, "/api/v1/events/", self._bearer)
        await self._read("log by sign-in", self._portal, log, cookie)
        await self._read("log by token", self._portal, log, self._bearer)
        await self._listen("app websocket", self._app, "/ws", self._header(self._app))
        await self._listen("terminal", self._portal, f"/ws/sessions/{session_id}/terminal/", cookie)
        order = json.dumps({"argv": ["echo"]})
        await self._listen("exec", self._portal, f"/api/v1/sessions/{session_id}/exec/", self._bearer, order)
        await asyncio.sleep(0.5)  # all connections are established by then
        if self._ended_at:
            raise SystemExit(f"Ended before anything was taken away: {', '.join(self._ended_at)}")
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._cleanup.aclose()

    async def ends(self, kinds: frozenset[str]) -> dict[str, float]:
        """Return {kind: time of its end}; a connection that stayed open gets the time of the last
        check.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GIVE_UP_S):
                await asyncio.gather(*(asyncio.shield(self._tasks[kind]) for kind in kinds))
        now = time.monotonic()
        return {kind: self._ended_at.get(kind, now) for kind in kinds}

    def _header(self, host: str) -> dict[str, str]:
        pairs = self._browser.cookies[host].items()
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in pairs)}

    async def _read(self, kind: str, host: str, path: str, headers: dict[str, str]) -> None:
        url = f"http://127.0.0.1:{self._browser.port}{path}"
        sent = headers | {"Host": host}
        answer = await self._cleanup.enter_async_context(
            self._browser.http.get(url, headers=sent, timeout=None)
        )
        if answer.status != 200:
            raise SystemExit(f"{kind} did not open: {answer.status} {(await answer.text())[:300]}")

        async def read() -> None:
            async for _ in answer.content.iter_any():
                pass

        self._follow(kind, read)

    async def _listen(
        self, kind: str, host: str, path: str, headers: dict[str, str], first: str = ""
    ) -> None:
        url = f"http://127.0.0.1:{self._browser.port}{path}"
        sent = headers | {"Host": host} | ({} if first else {"Origin": f"http://{host}"})
        socket = await self._cleanup.enter_async_context(self._browser.http.ws_connect(url, headers=sent))
        if first:
            await socket.send_str(first)

        async def listen() -> None:
            async for _ in socket:
                pass

        self._follow(kind, listen)

    def _follow(self, kind: str, wait: Callable[[], Awaitable[Any]]) -> None:
        async def follow() -> None:
            with contextlib.suppress(aiohttp.ClientError):
                await wait()
            self._ended_at[kind] = time.monotonic()

        self._tasks[kind] = asyncio.get_running_loop().create_task(follow())
