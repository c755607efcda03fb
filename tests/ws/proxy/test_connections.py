"""Failing kept-alive connections, malformed handshakes and unused connections of the proxy."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from tests.ws.proxy.test_websocket_splice import ACCEPT, DEADLINE_S, HANDSHAKE, SWITCH, from_app
from tests.ws.servers import StreamHandler, exchange, proxied, serve_bytes, wait_for
from transport.proxy import Target, Transport, UpstreamError
from transport.proxy.connection import Connection
from transport.proxy.errors import UpstreamTimeout, UpstreamUnreachable
from transport.proxy.pool import Pool
from transport.proxy.target import Timeouts
from transport.server import Limits

GET = b"GET / HTTP/1.1\r\nHost: a.b\r\n\r\n"
LAST_GET = b"GET / HTTP/1.1\r\nHost: a.b\r\nConnection: close\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def scripted(*answers: bytes, ends: bool = True) -> StreamHandler:
    """An app that gives these answers on each connection, one a request, and then closes it or stays silent."""

    async def app(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for answer in answers:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer)
            if not ends:
                await reader.read()
        except asyncio.IncompleteReadError:
            pass
        writer.close()

    return app


async def second_answer(
    app: StreamHandler,
    request: bytes = LAST_GET,
    timeouts: Timeouts | None = None,
    limits: Limits | None = None,
) -> bytes:
    """What a client gets for its second request, which goes over the connection kept from the first."""
    transport = Transport(timeouts)
    async with serve_bytes(app) as upstream, proxied(upstream, transport=transport, limits=limits) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.timeout(DEADLINE_S):
                writer.write(GET)
                await reader.readuntil(b"\r\n\r\nok")
                await wait_for(lambda: transport.pool._idle, deadline_s=DEADLINE_S)
                writer.write(request)
                return await reader.read()
        finally:
            writer.close()


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (b"HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n", b"UpstreamBroken"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", b"UpstreamBroken"),
        (b"no http\r\n\r\n", b"UpstreamBroken"),
    ],
)
async def test_a_broken_answer_over_a_kept_connection_is_an_error_page(answer: bytes, seen: bytes) -> None:
    told = await second_answer(scripted(OK, answer))
    assert told.startswith(b"HTTP/1.1 502 ")
    assert told.endswith(seen)


async def test_a_kept_connection_that_dies_without_a_word_is_replaced() -> None:
    told = await second_answer(scripted(OK, b""))
    assert told.startswith(b"HTTP/1.1 200 ")
    assert told.endswith(b"ok")


async def test_a_body_cut_short_over_a_kept_connection_is_cut_short_for_the_client() -> None:
    told = await second_answer(scripted(OK, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal"))
    assert told.startswith(b"HTTP/1.1 200 ")
    assert b"content-length: 9" in told.lower()
    assert told.endswith(b"\r\n\r\nhal")


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
async def test_an_answer_without_a_body_passes_over_a_kept_connection(method: bytes) -> None:
    told = await second_answer(
        scripted(OK, b"HTTP/1.1 204 No Content\r\n\r\n"), LAST_GET.replace(b"GET", method)
    )
    assert told.startswith(b"HTTP/1.1 204 ")
    assert told.endswith(b"\r\n\r\n")


async def test_an_app_silent_on_a_kept_connection_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transport.server.connection_registry.SWEEP_S", 0.05)
    told = await second_answer(
        scripted(OK, b"", ends=False), timeouts=Timeouts(response_head_s=0.2), limits=Limits(pace_s=0.1)
    )
    assert told.startswith(b"HTTP/1.1 502 ")
    assert told.endswith(b"UpstreamTimeout")


async def test_a_client_that_leaves_ends_its_request_on_a_kept_connection() -> None:
    has_asked, has_ended = asyncio.Event(), asyncio.Event()

    async def app(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await reader.readuntil(b"\r\n\r\n")
        has_asked.set()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        has_ended.set()
        writer.close()

    async with serve_bytes(app) as upstream, proxied(upstream) as port, asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        await reader.readuntil(b"\r\n\r\nok")
        writer.write(GET)
        await has_asked.wait()
        writer.transport.abort()
        await has_ended.wait()


async def test_a_large_answer_over_a_kept_connection_waits_for_the_client() -> None:
    size = 8 * 2**20
    told = await second_answer(
        scripted(OK, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
    )
    assert told.endswith(b"\r\n\r\n" + bytes(size))


@pytest.mark.parametrize(
    "answer",
    [
        SWITCH.replace(ACCEPT, b"wrong"),
        SWITCH.replace(b"Upgrade: websocket", b"Upgrade: h2c"),
        SWITCH.replace(b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"),
        SWITCH.replace(b"\r\n\r\n", b"\r\nSec-WebSocket-Protocol: never-offered\r\n\r\n"),
    ],
)
async def test_a_handshake_that_accepts_something_else_is_an_error(answer: bytes) -> None:
    async with serve_bytes(scripted(answer, ends=False)) as upstream, proxied(upstream) as port:
        told = await exchange(port, HANDSHAKE)
    assert told.startswith(b"HTTP/1.1 502 ")
    assert told.endswith(b"UpstreamBroken")


async def test_a_handshake_that_is_not_answered_is_given_up() -> None:
    transport = Transport(Timeouts(response_head_s=0.05))
    async with (
        serve_bytes(scripted(b"", ends=False)) as upstream,
        proxied(upstream, transport=transport) as port,
    ):
        told = await exchange(port, HANDSHAKE)
    assert told.startswith(b"HTTP/1.1 502 ")
    assert told.endswith(b"UpstreamTimeout")


async def test_a_client_that_leaves_within_its_handshake_takes_it_from_the_app() -> None:
    has_asked, has_ended = asyncio.Event(), asyncio.Event()

    async def app(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        has_asked.set()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        has_ended.set()
        writer.close()

    async with serve_bytes(app) as upstream, proxied(upstream) as port, asyncio.timeout(DEADLINE_S):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        await has_asked.wait()
        writer.transport.abort()
        await has_ended.wait()


async def test_a_frame_right_behind_the_handshake_reaches_the_client() -> None:
    frame = from_app(b"at once")
    async with serve_bytes(scripted(SWITCH + frame, ends=False)) as upstream, proxied(upstream) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        async with asyncio.timeout(DEADLINE_S):
            assert (await reader.readuntil(b"at once")).endswith(b"\r\n\r\n" + frame)
        writer.transport.abort()


async def used(pool: Pool, target: Target, *, is_new: bool = True) -> Connection:
    """A connection that has carried one request and may carry another."""
    connection = await pool.connect(target, is_new=is_new)
    connection.start("GET", GET)
    async with asyncio.timeout(DEADLINE_S):
        await connection.response()
        while await connection.next_chunk():
            pass
    return connection


async def until(predicate: Callable[[], object]) -> None:
    await wait_for(predicate, deadline_s=DEADLINE_S)


async def test_the_connection_used_last_is_the_next_one() -> None:
    async with serve_bytes(scripted(*[OK] * 9)) as port:
        pool, target = Pool(Timeouts()), Target("127.0.0.1", port, "one")
        first, last = await used(pool, target), await used(pool, target)
        pool.release(first)
        pool.release(last)
        assert await pool.connect(target) is last
        assert last.is_reused
        assert pool.reuse(Target("127.0.0.1", port, "another")) is None
        last.abort()
        pool.close()
        assert not first.is_open


async def test_a_dead_connection_is_passed_over() -> None:
    async with serve_bytes(scripted(*[OK] * 9)) as port:
        pool, target = Pool(Timeouts()), Target("127.0.0.1", port, "one")
        first, last = await used(pool, target), await used(pool, target)
        pool.release(first)
        pool.release(last)
        last.abort()
        assert pool.reuse(target) is first
        assert pool.reuse(target) is None
        first.abort()
        pool.close()


async def test_a_connection_within_a_request_is_not_kept() -> None:
    async with serve_bytes(scripted(b"", ends=False)) as port:
        pool, target = Pool(Timeouts()), Target("127.0.0.1", port, "one")
        connection = await pool.connect(target)
        connection.start("GET", GET)
        pool.release(connection)
        assert not connection.is_open
        assert pool.reuse(target) is None
        pool.close()


async def test_beyond_its_places_the_pool_closes_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transport.proxy.pool._IDLE_PER_TARGET", 2)
    async with serve_bytes(scripted(*[OK] * 9)) as port:
        pool, target = Pool(Timeouts()), Target("127.0.0.1", port, "one")
        three = [await used(pool, target) for _ in range(3)]
        for connection in three:
            pool.release(connection)
        assert [connection.is_open for connection in three] == [False, True, True]
        pool.close()


async def test_what_is_idle_for_long_is_closed_and_the_rest_looked_at_again() -> None:
    async with serve_bytes(scripted(*[OK] * 9)) as port:
        pool = Pool(Timeouts(idle_s=0.2))
        one, two = (Target("127.0.0.1", port, owner) for owner in ("one", "two"))
        old, young = await used(pool, one), await used(pool, two)
        pool.release(old)
        pool.release(young)
        old.idle_since -= 60
        young.idle_since += 0.2
        await until(lambda: not old.is_open)
        await until(lambda: not young.is_open)
        assert pool._sweeper is None
        assert not pool._idle


@pytest.mark.parametrize(("connect_s", "fault"), [(0, UpstreamTimeout), (5, UpstreamUnreachable)])
async def test_a_port_that_does_not_accept_is_told_from_one_that_is_slow(
    connect_s: float, fault: type[UpstreamError]
) -> None:
    async with serve_bytes(scripted()) as unused:
        pass
    with pytest.raises(fault):
        await Pool(Timeouts(connect_s=connect_s)).connect(Target("127.0.0.1", unused, "one"))
