"""Real servers on the loopback for tests of the gateway: an ASGI server as in production, and apps."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import uvicorn
from aiohttp import web

from transport.proxy import (
    HeaderRules,
    RequestRefused,
    Target,
    Transport,
    UpstreamError,
    forward_http,
    forward_websocket,
    reject_websocket,
    request_head,
)
from transport.proxy.fast_relay import Relay
from transport.server import Exchange, Limits, PreAppHandler, TrustedProxies, protocol_class
from transport.server.asgi import Receive, Scope, Send

StreamHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

PRIVATE_COOKIES = frozenset((b"__Host-berth-app",))


DEFAULT_RULES = HeaderRules(private_cookies=PRIVATE_COOKIES)


class PlainProxy:
    """The transport alone: everybody may pass, to one target; its own front."""

    def __init__(self, port: int, transport: Transport, rules: HeaderRules) -> None:
        self.target = Target("127.0.0.1", port, "test")
        self.transport = transport
        self.rules = rules

    def handle(self, exchange: Exchange) -> bool:
        """Over a kept connection at once, as the gateway does; what fails there goes the long way."""
        connection = (
            self.transport.pool.reuse(self.target) if exchange.scope["method"] in ("GET", "HEAD") else None
        )
        if connection is None:
            return False
        relay = Relay(
            exchange,
            connection,
            transport=self.transport,
            rules=self.rules,
            on_end=lambda fault: self._after(relay, exchange, fault),
        )
        relay.start(request_head(exchange.scope, self.rules))
        return True

    def _after(self, relay: Relay, exchange: Exchange, fault: UpstreamError | None) -> None:
        if fault is None or exchange.is_gone:
            return
        if relay.may_be_repeated:
            exchange.run(self)
        else:
            exchange.answer(502, [], type(fault).__name__.encode())

    def owns(self, scope: Scope) -> bool:
        return True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            forward = forward_http if scope["type"] == "http" else forward_websocket
            await forward(
                scope, receive, send, transport=self.transport, target=self.target, rules=self.rules
            )
        except (UpstreamError, RequestRefused) as exc:
            text = type(exc).__name__
            status = 400 if isinstance(exc, RequestRefused) else 502
            if scope["type"] == "websocket":
                await reject_websocket(scope, receive, send, status=status, text=text)
                return
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": text.encode()})


@asynccontextmanager
async def serve_asgi(
    app: AsgiApp,
    *,
    pre_app_handler: PreAppHandler | None = None,
    limits: Limits | None = None,
    proxies: TrustedProxies | None = None,
) -> AsyncIterator[int]:
    """The port of a server with production's settings; requests still open at the end are cut."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        http=protocol_class(pre_app_handler=pre_app_handler, limits=limits, proxies=proxies),
        ws="websockets-sansio",
        ws_max_size=64 * 1024 * 1024,
        ws_per_message_deflate=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        log_level="critical",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(
        server._serve([listener])
    )  # serve() would also take over the signals of pytest
    try:
        await wait_for(lambda: server.started)
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def serve_app(routes: web.RouteTableDef) -> AsyncIterator[int]:
    """The port of an app as a session would run it."""
    app = web.Application(client_max_size=2**30)
    app.add_routes(routes)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serve_bytes(handler: StreamHandler) -> AsyncIterator[int]:
    """The port of a server that says whatever the handler writes."""
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def proxied(
    port: int,
    *,
    transport: Transport | None = None,
    rules: HeaderRules | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[int]:
    """The port of a proxy in front of `port`."""
    transport = transport or Transport()
    rules = rules or DEFAULT_RULES
    try:
        proxy = PlainProxy(port, transport, rules)
        async with serve_asgi(proxy, pre_app_handler=proxy, limits=limits) as proxy_port:
            yield proxy_port
    finally:
        await transport.close()


async def exchange(port: int, request: bytes) -> bytes:
    """All that a server answers to these bytes, until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


async def wait_for(predicate: Callable[[], object], *, deadline_s: float = 10) -> None:
    """Let the loop run until the predicate is true. TimeoutError after the deadline."""
    async with asyncio.timeout(deadline_s):
        while not predicate():
            await asyncio.sleep(0.01)
