"""Start a production web process, an app behind it, and the peer proxy before the same app.

The app replaces a session's container: rows describe a session running on the loopback interface,
and a user has signed in and opened the app.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import aiohttp
from django.conf import settings

from portal.ops.paths import find_layout
from portal.ops.services.portal_processes import Portal
from portal.ops.setup.env_file import free_port
from sessions_app.gateway.proxy.request import APP_COOKIE
from tests.bench.frame import say
from tests.bench.load import Door
from tests.bench.own_django import own_database
from tests.bench.peers.install import configurable_http_proxy
from tests.bench.processes import is_listening, running, wait_until_up
from tests.ws.stage import Browser, Stage, set_stage, sign_in


@dataclass(frozen=True, slots=True)
class Proxy:
    """One of the two proxies to the app."""

    door: Door
    pid: int


@contextlib.contextmanager
def two_proxies() -> Iterator[tuple[Proxy, Proxy]]:
    """Start Berth's gateway and the peer; stop and remove both at the end."""
    with contextlib.ExitStack() as cleanup:
        environment = cleanup.enter_context(own_database())
        app = cleanup.enter_context(running([sys.executable, "-m", "tests.bench.backend"], os.environ))
        assert app.stdout is not None
        app_port = int(app.stdout.readline())
        stage = set_stage()
        stage.run()
        port, pid = cleanup.enter_context(web_process(environment))
        host = stage.host(f"p{app_port}")
        cookie = asyncio.run(app_cookie(port, stage, host))
        ours = Proxy(Door(port, {"Host": host, "Cookie": f"{APP_COOKIE}={cookie}"}), pid)
        yield ours, cleanup.enter_context(their_proxy(app_port, ours.door))


@contextlib.contextmanager
def web_process(environment: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """Start a portal's web server as bin/up does. Yields (port, process id)."""
    port = free_port()
    portal = Portal(find_layout(None), environment, host="127.0.0.1", port=port, image="")
    service = next(service for service in portal.front() if service.name == "web")
    say("starting the web process of a portal")
    with running(service.argv, service.environment, service.directory) as process:
        wait_until_up(process, service.is_ready)
        yield port, process.pid


async def app_cookie(port: int, stage: Stage, host: str) -> str:
    """Return the browser's cookie for the app, after its user has opened it."""
    portal_cookie = await asyncio.to_thread(sign_in, stage.owner)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        browser = Browser(port, http)
        portal_host = settings.BERTH_URL.partition("://")[2]
        browser.cookies[portal_host] = {settings.SESSION_COOKIE_NAME: portal_cookie}
        answer = await browser.visit(host, "/small")
        if answer.status != 200:
            raise SystemExit(f"The app did not open: {answer.status} {answer.text[:300]}")
        return browser.cookies[host][APP_COOKIE]


@contextlib.contextmanager
def their_proxy(app_port: int, door: Door) -> Iterator[Proxy]:
    """Start JupyterHub's proxy for the same requests."""
    port = free_port()
    argv = [
        *configurable_http_proxy(say),
        *("--ip", "127.0.0.1", "--port", str(port), "--api-ip", "127.0.0.1", "--api-port", str(free_port())),
        *("--default-target", f"http://127.0.0.1:{app_port}", "--log-level", "error"),
    ]
    environment = {"PATH": os.environ["PATH"], "CONFIGPROXY_AUTH_TOKEN": "unused", "NODE_ENV": "production"}
    with running(argv, environment) as process:
        wait_until_up(process, lambda: is_listening(port))
        yield Proxy(Door(port, door.headers), process.pid)
