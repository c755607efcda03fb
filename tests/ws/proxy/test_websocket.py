"""Websockets through the proxy, against real servers on the loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import WSMsgType, web

from tests.ws.servers import proxied, serve_app, serve_bytes, wait_for

MIB = 2**20


class Peer:
    """An app with one websocket: echoes, and does what a text command says."""

    def __init__(self) -> None:
        self.close_code: int | None = None
        self.headers: dict[str, str] = {}
        self.received = 0

    def routes(self) -> web.RouteTableDef:
        routes = web.RouteTableDef()
        routes.get("/ws")(self.talk)
        routes.get("/no")(self.refuse)
        return routes

    async def refuse(self, _request: web.Request) -> web.Response:
        return web.Response(status=403, text="no")

    async def talk(self, request: web.Request) -> web.WebSocketResponse:
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        socket = web.WebSocketResponse(protocols=("v2.kernel",), max_msg_size=64 * MIB, heartbeat=None)
        await socket.prepare(request)
        async for message in socket:
            self.received += 1
            if message.type is WSMsgType.BINARY:
                await socket.send_bytes(message.data)
            elif message.data.startswith("close "):
                await socket.close(code=int(message.data[6:]), message=b"because")
            elif message.data == "vanish":
                assert request.transport is not None
                request.transport.abort()
            elif message.data == "ping":
                await socket.ping(b"are you there")
                await socket.send_str("pinged")
            else:
                await socket.send_str(message.data)
        self.close_code = socket.close_code
        return socket


@asynccontextmanager
async def opened(peer: Peer, **options: object) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with serve_app(peer.routes()) as app, proxied(app) as port, aiohttp.ClientSession() as browser:
        url = f"http://127.0.0.1:{port}/ws"
        async with browser.ws_connect(url, max_msg_size=64 * MIB, **options) as socket:  # type: ignore[arg-type]
            yield socket


async def test_text_and_binary_pass_both_ways() -> None:
    async with opened(Peer()) as socket:
        await socket.send_str("grüße")
        assert (await socket.receive()).data == "grüße"
        await socket.send_bytes(b"\x00\xff")
        assert (await socket.receive()).data == b"\x00\xff"


async def test_a_message_of_ten_megabytes_passes() -> None:
    async with opened(Peer()) as socket:
        await socket.send_bytes(bytes(10 * MIB))
        message = await socket.receive()
        assert len(message.data) == 10 * MIB


async def test_the_app_chooses_the_subprotocol() -> None:
    async with opened(Peer(), protocols=("v1.kernel", "v2.kernel")) as socket:
        assert socket.protocol == "v2.kernel"


async def test_private_cookies_stay_here_and_origin_and_host_arrive() -> None:
    peer = Peer()
    headers = {"Cookie": "__Host-berth-app=secret; a=1", "Origin": "http://a.b", "Host": "a.b"}
    async with opened(peer, headers=headers) as socket:
        await socket.send_str("x")
        await socket.receive()
    assert peer.headers["cookie"] == "a=1"
    assert (peer.headers["origin"], peer.headers["host"]) == ("http://a.b", "a.b")
    assert peer.headers["x-forwarded-proto"] == "http"


@pytest.mark.parametrize(("code", "seen"), [(4321, 4321), (1000, 1000), (1012, 1012)])
async def test_the_apps_close_code_reaches_the_client(code: int, seen: int) -> None:
    async with opened(Peer()) as socket:
        await socket.send_str(f"close {code}")
        message = await socket.receive()
    assert (message.type, message.data, message.extra) == (WSMsgType.CLOSE, seen, "because")


async def test_an_app_that_vanishes_is_an_internal_error_to_the_client() -> None:
    async with opened(Peer()) as socket:
        await socket.send_str("vanish")
        assert (await socket.receive()).data == 1011


async def test_the_clients_close_code_reaches_the_app() -> None:
    peer = Peer()
    async with opened(peer) as socket:
        await socket.close(code=4002)
        await wait_for(lambda: peer.close_code == 4002)


async def test_a_client_that_vanishes_closes_the_apps_side() -> None:
    peer = Peer()
    async with opened(peer) as socket:
        await socket.send_str("x")
        await socket.receive()
        socket._response.connection.transport.abort()  # type: ignore[union-attr]
        await wait_for(lambda: peer.close_code is not None)


async def test_pings_reach_the_other_side() -> None:
    async with opened(Peer(), autoping=False) as socket:
        await socket.send_str("ping")
        message = await socket.receive()
        assert (message.type, message.data) == (WSMsgType.PING, b"are you there")
        assert (await socket.receive()).data == "pinged"
        await socket.ping(b"hello")
        message = await socket.receive()
        assert (message.type, message.data) == (WSMsgType.PONG, b"hello")


@pytest.mark.parametrize(("path", "status"), [("/no", 502), ("/absent", 502)])
async def test_a_refused_handshake_is_an_http_error(path: str, status: int) -> None:
    async with serve_app(Peer().routes()) as app, proxied(app) as port, aiohttp.ClientSession() as browser:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await browser.ws_connect(f"http://127.0.0.1:{port}{path}")
    assert refusal.value.status == status


async def test_nothing_listening_is_an_http_error() -> None:
    async with serve_app(web.RouteTableDef()) as unused:
        pass
    async with proxied(unused) as port, aiohttp.ClientSession() as browser:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await browser.ws_connect(f"http://127.0.0.1:{port}/ws")
    assert refusal.value.status == 502


async def test_an_app_that_does_not_speak_websocket_is_an_http_error() -> None:
    async def app(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 ready\r\n")
        writer.close()

    async with serve_bytes(app) as upstream, proxied(upstream) as port, aiohttp.ClientSession() as browser:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await browser.ws_connect(f"http://127.0.0.1:{port}/ws")
    assert refusal.value.status == 502
