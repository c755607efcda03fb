"""A side that does not read stops the other side: the proxy buffers nothing."""

import asyncio

import aiohttp
from aiohttp import web

from tests.ws.servers import proxied, serve_app, wait_for

BLOCK = bytes(256 * 1024)
TOTAL_BYTES = 512 * 2**20
# What may be on its way: our buffers and those of four sockets of the system.
ON_THE_WAY_BYTES = 32 * 2**20


class Producer:
    """Sends without end, and knows how much it could send."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.received_bytes = 0
        self.may_read = asyncio.Event()

    def routes(self) -> web.RouteTableDef:
        routes = web.RouteTableDef()
        routes.get("/download")(self.download)
        routes.put("/upload")(self.upload)
        routes.get("/ws")(self.talk)
        return routes

    async def download(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while self.sent_bytes < TOTAL_BYTES:
            await response.write(BLOCK)
            self.sent_bytes += len(BLOCK)
        return response

    async def upload(self, request: web.Request) -> web.Response:
        await self.may_read.wait()
        async for part in request.content.iter_any():
            self.received_bytes += len(part)
        return web.Response()

    async def talk(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        while self.sent_bytes < TOTAL_BYTES:
            await socket.send_bytes(BLOCK)
            self.sent_bytes += len(BLOCK)
        return socket


async def settled(producer: Producer) -> int:
    """How much was sent once no more can be."""
    before = -1
    while before != producer.sent_bytes or before == 0:
        before = producer.sent_bytes
        for _ in range(20):
            await asyncio.sleep(0.01)
    return producer.sent_bytes


async def test_a_slow_download_waits_in_the_app() -> None:
    producer = Producer()
    async with serve_app(producer.routes()) as app, proxied(app) as port, aiohttp.ClientSession() as browser:
        async with browser.get(f"http://127.0.0.1:{port}/download") as answer:
            assert await settled(producer) < ON_THE_WAY_BYTES
            answer.close()


async def test_a_slow_websocket_waits_in_the_app() -> None:
    producer = Producer()
    async with serve_app(producer.routes()) as app, proxied(app) as port, aiohttp.ClientSession() as browser:
        socket = await browser.ws_connect(f"http://127.0.0.1:{port}/ws")
        assert await settled(producer) < ON_THE_WAY_BYTES
        socket._response.connection.transport.abort()  # type: ignore[union-attr]


async def test_an_upload_waits_for_a_slow_app() -> None:
    producer = Producer()

    async def body():  # type: ignore[no-untyped-def]
        while producer.sent_bytes < TOTAL_BYTES // 8:
            yield BLOCK
            producer.sent_bytes += len(BLOCK)

    async with serve_app(producer.routes()) as app, proxied(app) as port, aiohttp.ClientSession() as browser:
        upload = asyncio.create_task(browser.put(f"http://127.0.0.1:{port}/upload", data=body()))
        assert await settled(producer) < ON_THE_WAY_BYTES
        producer.may_read.set()
        async with asyncio.timeout(20), await upload as answer:
            assert answer.status == 200
        await wait_for(lambda: producer.received_bytes == producer.sent_bytes)
