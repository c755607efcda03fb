"""A user with a running session, and a browser that keeps cookies per host, whatever the port."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from asgiref.sync import sync_to_async
from django.conf import settings
from django.test import Client

from accounts.models import User
from agents.models import Agent
from agents.runtime.port import ContainerSpec
from agents.runtime.registry import runtime_for
from common.actors import SYSTEM
from portal.processes.asgi import portal_application
from sessions_app.core.states import Reason, Status
from sessions_app.gateway.auth.authorizer import DjangoAuthorizer
from sessions_app.gateway.proxy.app_proxy import AppProxy
from sessions_app.gateway.proxy.open_connections import OpenConnections
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession
from sessions_app.termination.service import begin_termination
from tests.factories_scheduler import Cluster, make_cluster
from tests.ws.servers import serve_asgi

PORTAL_HOST = "localhost:8080"
NAVIGATION = {
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-Site": "none",
    "Accept": "text/html",
}
LAUNCH = (
    (Status.SCHEDULED, Reason.PLACED),
    (Status.PREPARING, Reason.PREPARING),
    (Status.STARTING, Reason.IMAGE_READY),
    (Status.RUNNING, Reason.CONTAINERS_UP),
)


@dataclass(frozen=True, slots=True)
class Stage:
    cluster: Cluster
    owner: User
    session: ComputeSession

    def host(self, app: str) -> str:
        return f"{app}-{self.session.host_label}.{settings.BERTH_APPS_DOMAIN}:8080"

    def declare(self, *apps: dict[str, Any]) -> None:
        """Let the session's image have these apps."""
        image = self.session.image
        image.apps = list(apps)
        image.save(update_fields=["apps"])

    def run(self) -> None:
        """Carry the session to RUNNING, with a container on the loopback."""
        agent = self.cluster.add_agent({"cpu": 8000, "mem": 2**34})
        Agent.objects.filter(pk=agent.pk).update(address=f"unix:///machine/{agent.pk}")  # the portal's own
        self.session.kernels.update(agent=agent, address="127.0.0.1")
        for status, reason in LAUNCH:
            transitions.transition(self.session.pk, to=status, reason=reason, actor=SYSTEM)

    def run_container(self) -> None:
        """Carry the session to RUNNING, with a container on a simulated engine."""
        self.run()
        kernel = self.session.kernels.get()
        address = f"simulated://{kernel.pk.hex}?image=tiny"
        Agent.objects.filter(pk=kernel.agent_id).update(address=address)
        runtime = runtime_for(address)
        size = {"cpu_milli": 500, "mem_bytes": 2**26}
        runtime.ensure_container(ContainerSpec(name=kernel.container_name, image="tiny", labels={}, **size))
        runtime.start_container(kernel.container_name)

    def stop(self) -> None:
        begin_termination(self.session.pk, reason=Reason.USER_REQUESTED, actor=SYSTEM)


def set_stage() -> Stage:
    cluster = make_cluster()
    return Stage(cluster, cluster.owner, cluster.add_pending({"cpu": 1000, "mem": 2**30}))


def sign_in(user: User) -> str:
    """The value of a portal session cookie."""
    client = Client()
    client.force_login(user, backend="accounts.sign_in.auth_backends.SignInBackend")
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@dataclass
class Answer:
    status: int
    headers: Any
    text: str


@dataclass
class Browser:
    """Sends requests to one server under any host name, and keeps cookies per host."""

    port: int
    http: aiohttp.ClientSession
    cookies: dict[str, dict[str, str]] = field(default_factory=dict)

    async def request(
        self, method: str, host: str, path: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> Answer:
        url = f"http://127.0.0.1:{self.port}{path}"
        sent = self._headers(host) | (headers or {})
        async with self.http.request(method, url, headers=sent, allow_redirects=False, **more) as answer:
            self._keep(host, answer)
            return Answer(answer.status, answer.headers, await answer.text())

    async def visit(self, host: str, path: str = "/") -> Answer:
        """Open a page and follow redirects to wherever they lead, as a navigation does."""
        for _ in range(6):
            answer = await self.request("GET", host, path, headers=NAVIGATION)
            if "Location" not in answer.headers:
                break
            place = urlsplit(answer.headers["Location"])
            host = place.netloc or host
            path = place.path + (f"?{place.query}" if place.query else "")
        return answer

    def websocket(self, host: str, path: str, *, origin: str | None = None, **more: Any) -> Any:
        headers = self._headers(host) | {"Origin": origin or f"http://{host}"}
        return self.http.ws_connect(f"http://127.0.0.1:{self.port}{path}", headers=headers, **more)

    def _headers(self, host: str) -> dict[str, str]:
        mine = self.cookies.get(host, {})
        cookie = "; ".join(f"{name}={value}" for name, value in mine.items())
        return {"Host": host} | ({"Cookie": cookie} if cookie else {})

    def _keep(self, host: str, answer: aiohttp.ClientResponse) -> None:
        for header in answer.headers.getall("Set-Cookie", []):
            name, _, value = header.partition(";")[0].partition("=")
            self.cookies.setdefault(host, {})[name] = value


@asynccontextmanager
async def gateway(*, recheck_s: float = 5.0) -> AsyncIterator[Browser]:
    """A browser in front of the portal with its gateway."""
    authorizer = DjangoAuthorizer()
    proxy = AppProxy(
        apps_domain=settings.BERTH_APPS_DOMAIN,
        fallback=portal_application,
        authorizer=authorizer,
        connections=OpenConnections(authorizer.still_present, recheck_s=recheck_s),
    )
    async with (
        serve_asgi(proxy, pre_app_handler=proxy) as port,
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http,
    ):
        yield Browser(port, http)
    await proxy.close()


async def signed_in(browser: Browser, user: User) -> Browser:
    browser.cookies[PORTAL_HOST] = {settings.SESSION_COOKIE_NAME: await sync_to_async(sign_in)(user)}
    return browser


def sample_app(seen: list[web.Request] | None = None) -> web.RouteTableDef:
    """An app that shows what it was asked, streams without end, and echoes a websocket."""
    routes = web.RouteTableDef()

    @routes.get("/stream")
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.05)

    @routes.get("/ws")
    async def talk(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data)
        return socket

    @routes.route("*", "/{tail:.*}")
    async def show(request: web.Request) -> web.Response:
        if seen is not None:
            seen.append(request)
        return web.Response(
            text=f"the app at {request.raw_path}", headers={"Content-Security-Policy": "default-src *"}
        )

    return routes
