"""Edge cases of a connection: slow clients, early ends, malformed answers, shutdown."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.ws.plain_app import statuses
from tests.ws.servers import AsgiApp, serve_asgi, wait_for
from transport.server import Limits, connection_registry
from transport.server.connection_registry import ConnectionRegistry

PATIENCE_S = 30
MIB = 2**20
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
START: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": []}
EMPTY: dict[str, Any] = {**START, "headers": [(b"content-length", b"0")]}
END: dict[str, Any] = {"type": "http.response.body"}


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_registry, "SWEEP_S", 0.02)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield reader, writer
        finally:
            writer.close()


async def heard(port: int, request: bytes) -> bytes:
    """All that is answered until the server closes, in whatever way."""
    answer = b""
    async with connected(port) as (reader, writer):
        writer.write(request)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(2**16):
                answer += data
    return answer


class Gate:
    """An app that answers once it is let, and tells what it was asked."""

    def __init__(self) -> None:
        self.begun = 0
        self.is_open = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun += 1
        await self.is_open.wait()
        await send(EMPTY)
        await send(END)

    async def heard(self, request: bytes, limits: Limits | None = None) -> list[int]:
        """The answers to what had all arrived before the first was answered."""
        async with serve_asgi(self, limits=limits) as port, connected(port) as (reader, writer):
            writer.write(request)
            await wait_for(lambda: self.begun, deadline_s=PATIENCE_S)
            self.is_open.set()
            return statuses(await reader.read())


def saying(*messages: dict[str, Any]) -> AsgiApp:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    return app


async def test_beyond_the_queue_nothing_is_answered() -> None:
    assert await Gate().heard(GET * 6, Limits(queued_requests=2)) == [200, 200, 200, 429]


@pytest.mark.parametrize(
    "behind",
    [b"nonsense\r\n\r\n", CHUNKED + b"zz\r\n", HANDSHAKE],
    ids=["nonsense", "a broken body", "a websocket"],
)
async def test_what_is_refused_waits_for_the_answer_before_it(behind: bytes) -> None:
    gate = Gate()
    assert await gate.heard(GET + behind) == [200, 400]
    assert gate.begun == 1


async def test_requests_behind_one_another_with_bodies_are_answered_in_order() -> None:
    sizes: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        sizes.append(size)
        await send(EMPTY)
        await send(END)

    put = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
    request = put % MIB + bytes(MIB) + put % 3 + b"abc" + LAST
    async with serve_asgi(app, limits=Limits(taken_ahead_bytes=1000)) as port:
        assert statuses(await heard(port, request)) == [200, 200, 200]
    assert sizes == [MIB, 3, 0]


async def test_an_app_hears_that_the_client_has_gone_and_may_talk_on() -> None:
    said: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while True:
            said.append((await receive())["type"])
            if said[-1] == "http.disconnect":
                break
        await send(EMPTY)
        await send(END)
        said.append("end")

    async with serve_asgi(app) as port:
        async with connected(port) as (_, writer):
            writer.write(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")
            await wait_for(lambda: said, deadline_s=PATIENCE_S)
        await wait_for(lambda: said[-1] == "end", deadline_s=PATIENCE_S)
    assert said == ["http.request", "http.disconnect", "end"]


async def test_what_waits_for_a_client_that_has_gone_is_never_begun() -> None:
    begun, heard_gone = [], asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        begun.append(scope["path"])
        await receive()
        assert (await receive())["type"] == "http.disconnect"
        heard_gone.set()

    async with serve_asgi(app, limits=Limits(pace_s=0.05)) as port:
        async with connected(port) as (_, writer):
            writer.write(GET * 3)
            await wait_for(lambda: begun, deadline_s=PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            await heard_gone.wait()
    assert begun == ["/"]


async def test_a_body_that_breaks_off_behind_half_an_answer_cuts_it() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send({**END, "body": b"half", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    async with serve_asgi(app) as port, connected(port) as (reader, writer):
        writer.write(CHUNKED)
        await reader.readuntil(b"half\r\n")
        writer.write(b"zz\r\n")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""


@pytest.mark.parametrize(("reads", "expected"), [(True, [100, 200]), (False, [200])])
async def test_a_client_is_asked_for_its_body_once_the_app_wants_it(reads: bool, expected: list[int]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while reads and (await receive())["more_body"]:
            pass
        await send(EMPTY)
        await send(END)

    request = (
        b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
    )
    async with serve_asgi(app) as port, connected(port) as (reader, writer):
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if reads:
            writer.write(b"ab")
        assert statuses(head + await reader.read()) == expected


def head(status: int, *fields: tuple[bytes, bytes]) -> dict[str, Any]:
    return {**START, "status": status, "headers": list(fields)}


FRAMING: dict[str, tuple[bytes, list[dict[str, Any]], list[bytes], list[bytes], bytes]] = {
    # name: (request, what the app sends, what the head has, what it has not, body)
    "HEAD": (b"HEAD", [START, {**END, "body": b"ab"}], [], [b"content-length", b"chunked"], b""),
    "HEAD of a length": (
        b"HEAD",
        [head(200, (b"content-length", b"9")), END],
        [b"content-length: 9"],
        [b"chunked"],
        b"",
    ),
    "204": (b"GET", [head(204, (b"content-length", b"0")), END], [b" 204 "], [b"content-length"], b""),
    "304": (b"GET", [head(304, (b"content-length", b"9")), END], [b"content-length: 9"], [b"chunked"], b""),
    "304 without a length": (b"GET", [head(304), END], [b" 304 "], [b"content-length", b"chunked"], b""),
    "no length": (b"GET", [START, {**END, "body": b"ab"}], [b"chunked"], [], b"2\r\nab\r\n0\r\n\r\n"),
    "coding of the app": (
        b"GET",
        [head(200, (b"Transfer-Encoding", b"gzip")), END],
        [b"chunked"],
        [b"gzip"],
        b"0\r\n\r\n",
    ),
    "length twice": (
        b"GET",
        [head(200, (b"content-length", b"2"), (b"Content-Length", b"7")), {**END, "body": b"ab"}],
        [b"content-length: 2"],
        [b"7\r\n"],
        b"ab",
    ),
    "less than promised": (
        b"GET",
        [head(200, (b"content-length", b"3")), {**END, "body": b"ab"}],
        [b"content-length: 3"],
        [],
        b"ab",
    ),
    "more than promised": (
        b"GET",
        [head(200, (b"content-length", b"2")), {**END, "body": b"abc"}],
        [b"content-length: 2"],
        [],
        b"",
    ),
    "no end": (b"GET", [START, {**END, "body": b"ab", "more_body": True}], [b"chunked"], [], b"2\r\nab\r\n"),
    "nothing": (b"GET", [], [b" 500 "], [], b"Internal Server Error"),
    "no head": (b"GET", [END], [b" 500 "], [], b"Internal Server Error"),
    "no message": (b"GET", [{"type": "a"}], [b" 500 "], [], b"Internal Server Error"),
    "two lines in a value": (
        b"GET",
        [head(200, (b"x", b"a\r\nb: c")), END],
        [b" 500 "],
        [b"b: c"],
        b"Internal Server Error",
    ),
    "two heads": (b"GET", [START, head(404)], [b" 200 "], [b" 404 "], b""),
}


@pytest.mark.parametrize("name", FRAMING)
async def test_an_answer_has_one_clear_end(name: str) -> None:
    method, messages, has, has_not, body = FRAMING[name]
    async with serve_asgi(saying(*messages)) as port:
        answer = await heard(port, LAST.replace(b"GET", method, 1))
    got_head, _, got_body = answer.partition(b"\r\n\r\n")
    assert all(part in got_head for part in has), got_head
    assert not any(part in got_head for part in has_not), got_head
    assert got_body == body


async def test_in_http_1_0_the_end_of_the_connection_is_the_end_of_the_answer() -> None:
    async with serve_asgi(saying(START, {**END, "body": b"ab"})) as port:
        answer = await heard(port, b"GET / HTTP/1.0\r\n\r\n")
    assert b"chunked" not in answer
    assert b"connection: close" in answer
    assert answer.endswith(b"\r\n\r\nab")


async def test_an_app_may_ask_to_close() -> None:
    async with serve_asgi(
        saying(head(200, (b"connection", b"Close"), (b"content-length", b"0")), END)
    ) as port:
        assert statuses(await heard(port, GET)) == [200]


async def test_a_slow_reader_gets_all() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(head(200, (b"content-length", b"%d" % (16 * MIB))))
        for _ in range(16):
            await send({**END, "body": bytes(MIB), "more_body": True})
        await send(END)

    async with serve_asgi(app, limits=Limits(unsent_bytes=1000)) as port:
        answer = await heard(port, LAST)
    assert len(answer.partition(b"\r\n\r\n")[2]) == 16 * MIB


async def test_an_answer_that_is_not_read_is_given_up() -> None:
    given_up = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send({**END, "body": bytes(32 * MIB), "more_body": True})
        await send(END)
        given_up.set()

    async with serve_asgi(app, limits=Limits(pace_s=0.05, stall_s=0.2)) as port:
        async with connected(port) as (_, writer):
            writer.write(GET)
            await given_up.wait()


@asynccontextmanager
async def stopping(stack: AsyncExitStack, port: int) -> AsyncIterator[None]:
    """While a server stops: it takes no one in, and what is open has been told."""
    task = asyncio.create_task(stack.aclose())
    with contextlib.suppress(ConnectionError):
        while True:
            (await asyncio.open_connection("127.0.0.1", port))[1].close()
            await asyncio.sleep(0.01)
    yield
    await task


async def test_a_server_that_stops_ends_its_answers_and_closes_what_is_idle() -> None:
    gate, stack = Gate(), AsyncExitStack()
    port = await stack.enter_async_context(serve_asgi(gate))
    async with connected(port) as (idle, _), connected(port) as (reader, writer):
        writer.write(GET)
        await wait_for(lambda: gate.begun, deadline_s=PATIENCE_S)
        async with stopping(stack, port):
            gate.is_open.set()
            answer = await reader.read()
            assert await idle.read() == b""
    assert statuses(answer) == [200]
    assert b"connection: close" in answer


class OwnsAll:
    def handle(self, exchange: Any) -> bool:
        return False

    def owns(self, scope: Any) -> bool:
        return True


async def test_what_comes_before_a_websocket_is_taken_in_is_not_kept_without_end() -> None:
    gate = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "websocket.connect"
        await gate.wait()
        await send({"type": "websocket.close"})

    limits = Limits(taken_ahead_bytes=1000, linger_s=2)
    async with serve_asgi(app, pre_app_handler=OwnsAll(), limits=limits) as port:
        async with connected(port) as (reader, writer):
            writer.write(HANDSHAKE)
            writer.write(bytes(16 * MIB))
            await wait_for(lambda: writer.transport.get_write_buffer_size() < 16 * MIB, deadline_s=PATIENCE_S)
            gate.set()
            assert statuses(await reader.readuntil(b"\r\n\r\n")) == [403]


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def close(self, code: int, reason: str) -> None:
        self.transport.write(b"%d" % code)
        self.transport.close()


async def test_a_tunnel_has_what_came_early_and_is_told_when_the_server_stops() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        echo = Echo()
        scope["extensions"]["berth.exchange"].open_tunnel(b"HTTP/1.1 101 \r\n\r\n", echo, echo)

    stack = AsyncExitStack()
    port = await stack.enter_async_context(serve_asgi(app, pre_app_handler=OwnsAll()))
    async with connected(port) as (reader, writer):
        writer.write(HANDSHAKE + b"early")
        assert await reader.readuntil(b"early") == b"HTTP/1.1 101 \r\n\r\nearly"
        async with stopping(stack, port):
            assert await reader.read() == b"1012"


class Sitting:
    """A connection of the lobby."""

    def __init__(self, *, is_idle: bool, deadline: float = float("inf")) -> None:
        self.is_idle = is_idle
        self.deadline = deadline
        self.has_left = False

    def on_deadline(self) -> None:
        self.deadline = float("inf")

    def abort(self) -> None:
        self.has_left = True


async def test_only_who_is_idle_makes_room_and_the_longest_waiting_first() -> None:
    registry = ConnectionRegistry(Limits(connections=3))
    busy, late, early = (
        Sitting(is_idle=False),
        Sitting(is_idle=True, deadline=9e9),
        Sitting(is_idle=True, deadline=8e9),
    )
    assert all(registry.add(connection, "") for connection in (busy, late, early))
    assert registry.add(Sitting(is_idle=False), "")
    assert (busy.has_left, late.has_left, early.has_left) == (False, False, True)
    assert registry.add(Sitting(is_idle=False), "")
    assert not registry.add(Sitting(is_idle=True), "")
    assert len(registry) == 3


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        ("2001:db8::1", "2001:db8::2:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("a:b", "a:b", True),
        ("", "", False),
    ],
)
async def test_a_peer_is_an_address_or_a_household_of_version_6(one: str, other: str, are_same: bool) -> None:
    registry = ConnectionRegistry(Limits(connections_of_peer=1))
    first = Sitting(is_idle=False)
    assert registry.add(first, one)
    assert registry.add(Sitting(is_idle=False), other) != are_same
    registry.remove(first)
    registry.remove(first)
    assert registry.add(Sitting(is_idle=False), one)


async def test_an_empty_registry_has_no_timer() -> None:
    registry = ConnectionRegistry(Limits())
    for _ in range(2):
        connection = Sitting(is_idle=True, deadline=0)
        assert registry.add(connection, "a")
        await wait_for(lambda connection=connection: connection.deadline, deadline_s=PATIENCE_S)  # type: ignore[misc]
        registry.remove(connection)
        await wait_for(lambda: registry._timer is None, deadline_s=PATIENCE_S)


async def test_a_cut_answer_of_the_old_protocol_does_not_look_whole() -> None:
    is_read = asyncio.Event()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(START)
        await send({**END, "body": b"half", "more_body": True})
        await is_read.wait()

    async with serve_asgi(app) as port, connected(port) as (reader, writer):
        writer.write(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n")
        assert await reader.readuntil(b"half")
        is_read.set()
        with pytest.raises(ConnectionResetError):
            await reader.read()
