"""Limits of connections: time, number, and addresses from trusted proxies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from tests.ws.plain_app import statuses
from tests.ws.servers import proxied, serve_app, serve_asgi
from transport.server import Limits, TrustedProxies, connection_registry

PATIENCE_S = 30
QUICK = Limits(head_s=2, idle_s=2, pace_s=2)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_registry, "SWEEP_S", 0.02)


@asynccontextmanager
async def served(limits: Limits) -> AsyncIterator[int]:
    routes = web.RouteTableDef()

    @routes.route("*", "/{tail:.*}")
    async def take(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    async with serve_app(routes) as app, proxied(app, limits=limits) as port:
        yield port


async def heard(port: int, *pieces: bytes) -> list[int]:
    """The statuses of all answers until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(PATIENCE_S):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        answer = await reader.read()
    writer.close()
    return statuses(answer)


async def answered(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has had one answer and waits."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
    async with asyncio.timeout(PATIENCE_S):
        await reader.readuntil(b"\r\n\r\n")
    return reader, writer


SLOW: dict[str, tuple[bytes, list[int]]] = {
    "silence": (b"", []),
    "half a line": (b"GET / HT", [408]),
    "half a head": (b"GET / HTTP/1.1\r\nHost: a\r\n", [408]),
    "nothing more": (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", [200]),
    "half a next one": (b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HT", [200, 408]),
    "half a body": (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\nab", [408]),
    "half a body behind another request": (
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\nPUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n",
        [200, 408],
    ),
    "half a chunk": (b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5000\r\nab", [408]),
}


async def test_what_does_not_come_in_time_is_not_waited_for() -> None:
    """Limits of seconds, as a machine that has much to do may need one for a connection."""
    async with served(QUICK) as port:
        answers = await asyncio.gather(*(heard(port, sent) for sent, _ in SLOW.values()))
    assert dict(zip(SLOW, answers, strict=True)) == {name: expected for name, (_, expected) in SLOW.items()}


async def test_one_peer_has_so_many_connections() -> None:
    async with served(Limits(connections_of_peer=3)) as port:
        kept = [await answered(port) for _ in range(3)]
        assert await heard(port, b"") == [503]
        for _, writer in kept:
            writer.close()


async def test_an_idle_connection_makes_room_for_a_new_one() -> None:
    async with served(Limits(connections=3)) as port:
        kept = [await answered(port) for _ in range(3)]
        request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        assert await heard(port, request) == [200]
        async with asyncio.timeout(PATIENCE_S):
            assert await kept[0][0].read() == b""
        for _, writer in kept:
            writer.close()


async def test_behind_a_proxy_the_proxys_word_counts() -> None:
    async def tell(scope, receive, send):  # type: ignore[no-untyped-def]
        text = f"{scope['scheme']} {scope['client'][0]}".encode()
        headers = [(b"content-length", b"%d" % len(text))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    said = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "6.6.6.6, 192.0.2.7"}
    for proxies, expected in ((TrustedProxies(["127.0.0.1"]), "https 192.0.2.7"), (None, "http 127.0.0.1")):
        async with serve_asgi(tell, proxies=proxies) as port, aiohttp.ClientSession() as http:
            async with http.get(f"http://127.0.0.1:{port}/", headers=said) as answer:
                assert await answer.text() == expected
