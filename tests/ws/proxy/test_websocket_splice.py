"""Ends, pings and errors of two joined websocket connections, frame by frame."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.ws.servers import proxied, serve_bytes, wait_for
from transport.proxy import websocket as websocket_module
from transport.proxy import websocket_splice as splice_module
from transport.proxy.websocket_frames import close_frame
from transport.proxy.websocket_splice import Splice

KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = base64.b64encode(
    hashlib.sha1(KEY + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False).digest()
)
HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: a.b\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + KEY + b"\r\n\r\n"
)
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Accept: " + ACCEPT + b"\r\n\r\n"
)
DEADLINE_S = 30
BINARY, CLOSE, PING, PONG = 0x82, 0x88, 0x89, 0x8A
MUCH = 32 * 2**20
GONE = (asyncio.IncompleteReadError, ConnectionError)


@dataclass
class End:
    """What one of the two peers holds."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def frame(self) -> tuple[int, bytes]:
        """The next frame: its first byte and its payload."""
        async with asyncio.timeout(DEADLINE_S):
            first, second = await self.reader.readexactly(2)
            length = second & 127
            mask = await self.reader.readexactly(4) if second > 127 else bytes(4)
            payload = await self.reader.readexactly(length)
        return first, bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))

    async def close_code(self) -> int:
        first, payload = await self.frame()
        assert first == CLOSE
        return int.from_bytes(payload[:2], "big")

    async def is_closed(self) -> bool:
        """Whether nothing more comes but the end."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True


@dataclass
class Joined:
    client: End
    app: End
    splice: Splice

    def look(self) -> None:
        """Let the time pass after which the client is looked for."""
        self.splice._ping_timer.cancel()
        self.splice._check_client()

    async def finished(self) -> None:
        await wait_for(self.splice.finished.done, deadline_s=DEADLINE_S)


@asynccontextmanager
async def joined(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Joined]:
    made: list[Splice] = []
    apps: list[End] = []
    is_over = asyncio.Event()

    def make(**_options: object) -> Splice:
        made.append(Splice())
        return made[0]

    async def app(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(SWITCH)
        apps.append(End(reader, writer))
        await is_over.wait()
        writer.transport.abort()

    monkeypatch.setattr(websocket_module, "Splice", make)
    async with serve_bytes(app) as upstream, proxied(upstream) as port:
        client = End(*await asyncio.open_connection("127.0.0.1", port))
        try:
            client.send(HANDSHAKE)
            async with asyncio.timeout(DEADLINE_S):
                head = await client.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101")
            yield Joined(client, apps[0], made[0])
        finally:
            client.writer.transport.abort()
            is_over.set()


def from_client(payload: bytes, first: int = BINARY) -> bytes:
    return bytes((first, 0x80 | len(payload))) + bytes(4) + payload


def from_app(payload: bytes, first: int = BINARY) -> bytes:
    return bytes((first, len(payload))) + payload


async def test_a_client_silent_through_its_ping_is_dropped_and_the_app_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with joined(monkeypatch) as both:
        both.look()
        assert await both.client.frame() == (PING, b"berth")
        both.look()
        assert await both.client.is_closed()
        assert await both.app.close_code() == 1001


async def test_a_client_that_answers_its_ping_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async with joined(monkeypatch) as both:
        for _ in range(3):
            both.look()
            assert await both.client.frame() == (PING, b"berth")
            both.client.send(from_client(b"berth", PONG))
            assert await both.app.frame() == (PONG, b"berth")
            both.look()
        both.app.send(from_app(b"still here"))
        assert await both.client.frame() == (BINARY, b"still here")


async def test_no_ping_is_put_into_a_frame_of_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    async with joined(monkeypatch) as both:
        message = from_app(b"0123456789")
        both.app.send(message[:4])
        await wait_for(lambda: not both.splice.app.watch.is_between_frames, deadline_s=DEADLINE_S)
        both.look()
        both.look()
        both.app.send(message[4:])
        assert await both.client.frame() == (BINARY, b"0123456789")
        both.look()
        assert await both.client.frame() == (PING, b"berth")


@pytest.mark.parametrize("is_clients", [True, False])
async def test_a_close_frame_and_its_answer_close_both_sides(
    monkeypatch: pytest.MonkeyPatch, is_clients: bool
) -> None:
    async with joined(monkeypatch) as both:
        frames = [
            (both.client, close_frame(4001, "bye", is_masked=True)),
            (both.app, close_frame(4001, "bye")),
        ]
        (one, said), (other, answer) = frames if is_clients else reversed(frames)
        one.send(said)
        assert await other.frame() == (CLOSE, b"\x0f\xa1bye")
        other.send(answer)
        assert await one.frame() == (CLOSE, b"\x0f\xa1bye")
        assert await one.is_closed()
        assert await other.is_closed()
        await both.finished()


async def test_a_close_frame_that_nobody_answers_ends_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splice_module, "CLOSING_S", 0.05)
    async with joined(monkeypatch) as both:
        both.app.send(close_frame(4001))
        assert await both.client.close_code() == 4001
        assert await both.client.is_closed()
        assert await both.app.is_closed()
        await both.finished()


async def test_what_follows_a_close_frame_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with joined(monkeypatch) as both:
        both.app.send(close_frame(4001))
        assert await both.client.close_code() == 4001
        both.app.send(from_app(b"more"))
        both.client.send(close_frame(4001, is_masked=True))
        assert await both.client.is_closed()


async def test_a_side_that_closes_and_goes_takes_the_other_along(monkeypatch: pytest.MonkeyPatch) -> None:
    async with joined(monkeypatch) as both:
        both.app.send(close_frame(4001))
        both.app.writer.close()
        assert await both.client.close_code() == 4001
        assert await both.client.is_closed()
        await both.finished()


async def test_a_bad_frame_of_the_client_is_said_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with joined(monkeypatch) as both:
        both.client.send(from_app(b"not masked"))
        assert await both.client.close_code() == 1002
        assert await both.app.close_code() == 1001


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (from_client(b"masked"), 1002),
        (from_app(b"continues nothing", 0x80), 1002),
        (from_app(b"no such kind", 0x83), 1002),
        (bytes((PING, 126)) + (200).to_bytes(2, "big"), 1002),
        (bytes((BINARY, 127)) + (2**30).to_bytes(8, "big"), 1009),
    ],
)
async def test_a_bad_frame_of_the_app_is_an_internal_error_to_the_client(
    monkeypatch: pytest.MonkeyPatch, bad: bytes, code: int
) -> None:
    async with joined(monkeypatch) as both:
        both.app.send(bad)
        assert await both.app.close_code() == code
        assert await both.client.close_code() == 1011


async def test_a_head_that_comes_in_pieces_is_one_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    async with joined(monkeypatch) as both:
        message = bytes((BINARY, 126)) + (300).to_bytes(2, "big") + bytes(300)
        for at, piece in enumerate((message[:1], message[1:3], message[3:])):
            both.app.send(piece)
            async with asyncio.timeout(DEADLINE_S):
                assert await both.client.reader.readexactly(len(piece)) == piece
            assert both.splice.app.watch.is_between_frames is (at == 2)


@pytest.mark.parametrize("is_clients", [True, False])
async def test_a_side_gone_within_a_frame_cuts_the_other_off(
    monkeypatch: pytest.MonkeyPatch, is_clients: bool
) -> None:
    async with joined(monkeypatch) as both:
        message = from_client(b"half") if is_clients else from_app(b"half")
        one, other = (both.client, both.app) if is_clients else (both.app, both.client)
        one.send(message[:-2])
        async with asyncio.timeout(DEADLINE_S):
            assert await other.reader.readexactly(len(message) - 2) == message[:-2]
        one.writer.transport.abort()
        assert await other.is_closed()
        await both.finished()


@pytest.mark.parametrize("code", [1012, 4403])
async def test_an_end_from_outside_tells_the_client_why_and_the_app_that_it_goes(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    async with joined(monkeypatch) as both:
        both.splice.close(code, "because")
        both.splice.close(1000, "said once only")
        assert await both.client.frame() == (CLOSE, code.to_bytes(2, "big") + b"because")
        assert await both.app.close_code() == 1001
        both.app.send(from_app(b"too late"))
        both.client.send(close_frame(code, is_masked=True))
        both.app.send(close_frame(1001))
        assert await both.client.is_closed()
        assert await both.app.is_closed()
        await both.finished()


async def test_an_end_from_outside_comes_behind_the_frame_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async with joined(monkeypatch) as both:
        message = from_app(b"0123456789")
        both.app.send(message[:4])
        await wait_for(lambda: not both.splice.app.watch.is_between_frames, deadline_s=DEADLINE_S)
        both.splice.close(1012, "restart")
        both.app.send(message[4:])
        assert await both.client.frame() == (BINARY, b"0123456789")
        assert await both.client.close_code() == 1012


async def test_a_side_that_does_not_take_its_leave_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splice_module, "CLOSE_TIMEOUT_S", 0.05)
    async with joined(monkeypatch) as both:
        both.app.send(from_app(b"0123456789")[:4])
        await wait_for(lambda: not both.splice.app.watch.is_between_frames, deadline_s=DEADLINE_S)
        both.splice.close(1012, "restart")
        await both.finished()
        with pytest.raises(GONE):
            await both.client.frame()


async def test_an_app_that_reads_nothing_holds_its_client_without_losing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with joined(monkeypatch) as both:
        head = bytes((BINARY, 0xFF)) + MUCH.to_bytes(8, "big") + bytes(4)
        both.client.send(head + bytes(MUCH))
        await wait_for(lambda: both.splice.client.is_read_paused, deadline_s=DEADLINE_S)
        for _ in range(3):
            both.look()
        async with asyncio.timeout(DEADLINE_S):
            assert await both.app.reader.readexactly(len(head)) == head
            assert await both.app.reader.readexactly(MUCH) == bytes(MUCH)
        await wait_for(lambda: not both.splice.client.is_read_paused, deadline_s=DEADLINE_S)
        both.app.send(from_app(b"got it"))
        assert await both.client.frame() == (BINARY, b"got it")


async def test_a_held_client_is_read_again_once_it_was_told_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splice_module, "CLOSE_TIMEOUT_S", 0.2)
    async with joined(monkeypatch) as both:
        both.client.send(bytes((BINARY, 0xFF)) + MUCH.to_bytes(8, "big") + bytes(4) + bytes(MUCH))
        await wait_for(lambda: both.splice.client.is_read_paused, deadline_s=DEADLINE_S)
        both.splice.close(4403, "no longer yours")
        assert not both.splice.client.is_read_paused
        assert await both.client.close_code() == 4403
        await both.finished()
