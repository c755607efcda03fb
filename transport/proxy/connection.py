"""HTTP/1.1 client connection to an app: one request at a time, with flow control both ways."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import httptools

from transport.proxy.errors import UpstreamBroken, UpstreamError
from transport.proxy.headers import Headers
from transport.proxy.target import Target

READ_HIGH_BYTES = 256 * 1024
WRITE_HIGH_BYTES = 256 * 1024
# Limit on heads, interim responses and trailers, i.e. bytes that add nothing to the body.
OVERHEAD_LIMIT_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class ResponseHead:
    status: int
    headers: Headers


class Connection(asyncio.Protocol):
    """HTTP/1.1 connection to an app, as an asyncio protocol. After `start`, call `response` once
    and `next_chunk` until b"". `is_reusable` then allows another request; `fault` holds the error
    that ended the connection early.

    Code without a task sets `listener`, which is called at each change, and reads `head`, `take`,
    `is_drained` and `is_open`.
    """

    _transport: asyncio.Transport
    _headers: Headers
    _pieces: list[bytes]
    _chunks: deque[bytes]
    _is_complete: bool
    _is_head_done: bool
    _is_upgraded: bool
    _rest: bytes
    has_received: bool  # any byte of the response

    def __init__(self, target: Target) -> None:
        self.target = target
        self.idle_since = 0.0
        self.is_reused = False
        self.fault: UpstreamError | None = None
        self.listener: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._parser: httptools.HttpResponseParser | None = None
        self.is_open = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._is_write_paused = False
        self._is_read_paused = False
        self._expect("")

    def start(self, method: str, head: bytes, *, wants_upgrade: bool = False) -> None:
        """Send a request's head, expect its response; with `wants_upgrade`, a 101 is final."""
        self._expect(method)
        self._wants_upgrade = wants_upgrade
        self._parser = httptools.HttpResponseParser(self)
        self._transport.write(head)

    async def write(self, data: bytes) -> None:
        """Send a piece of the body; return when the app keeps up. Raises UpstreamError once the app
        has closed the connection.
        """
        self._check_open()
        self._transport.write(data)
        while self._is_write_paused and self.is_open:
            self._writer = self._loop.create_future()
            await self._writer
        self._check_open()

    async def response(self) -> ResponseHead:
        """Return the head of the final response; skips interim ones (1xx). Raises UpstreamError."""
        while (head := self.head) is None:
            self._check_open()
            await self._wait()
        return head

    @property
    def head(self) -> ResponseHead | None:
        """Head of the final response, or None before it has arrived."""
        return ResponseHead(self._status, self._headers) if self._is_head_done else None

    async def next_chunk(self) -> bytes:
        """Return the body bytes received since the last call, waiting for some; b"" at the end of
        the body. Raises UpstreamError if the body was cut short.
        """
        while not self._chunks:
            if self._is_complete:
                return b""
            self._check_open()
            await self._wait()
        return self.take()

    def take(self) -> bytes:
        """Return the body bytes received since the last call, and resume reading from the app."""
        chunks = self._chunks
        chunk = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._buffered_bytes = 0
        if self._is_read_paused and self.is_open:
            self._is_read_paused = False
            self._transport.resume_reading()
        return chunk

    def hand_over(self, protocol: asyncio.Protocol, before: Callable[[], None]) -> None:
        """After a 101, pass the connection to `protocol`, call `before`, deliver later bytes."""
        if self.is_open:
            self._transport.resume_reading()
        self.is_open = False
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        before()
        if self._rest:
            protocol.data_received(self._rest)

    @property
    def is_drained(self) -> bool:
        """True if the response is complete and all of it was taken."""
        return self._is_complete and not self._chunks

    @property
    def has_body_data(self) -> bool:
        """True if part of the body waits to be taken."""
        return bool(self._chunks)

    @property
    def is_reusable(self) -> bool:
        return self.is_open and self._is_complete and self._can_keep_alive and not self._is_read_paused

    async def ends_within(self, seconds: float) -> bool:
        """Return True if the other side closes this connection, on which nothing was sent, in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.is_open:
                    await self._wait()
        return not self.is_open

    def abort(self) -> None:
        """Close immediately, dropping unsent bytes."""
        if self.is_open:
            self.is_open = False
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not derive from asyncio's
        self.is_open = True
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)

    def data_received(self, data: bytes) -> None:
        self.has_received = True
        if self._is_upgraded:
            self._rest += data
            if len(self._rest) > READ_HIGH_BYTES:
                self._fail("too much at once")
            return
        if self._parser is None or self._is_complete:
            self._fail("bytes that belong to no response")
            return
        self._overhead_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._switch(data[upgrade.args[0] :])
        except httptools.HttpParserError as exc:
            self._fail(f"not HTTP/1.1: {exc}")
        if self._overhead_bytes > OVERHEAD_LIMIT_BYTES:
            self._fail("an endless head or trailer")
        self._flush_pieces()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._is_head_done and self._ends_with_connection and exc is None and self.fault is None:
            self._is_complete = True
        if self.fault is None:
            self.fault = UpstreamBroken("The app closed the connection.")
        self._wake()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    # httptools

    def on_message_begin(self) -> None:
        if self._is_complete:  # a second response must not change the first
            raise UpstreamBroken("The app sent bytes that belong to no response.")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_head_done:  # trailers do not belong to the head
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self._status = self._parser.get_status_code()
        if self._status == 101 and self._wants_upgrade:
            return
        if self._status < 200:
            self._headers = []
            return
        names = {name for name, _ in self._headers}
        is_bodiless = self._method == "HEAD" or self._status in (204, 304)
        self._ends_with_connection = not (names & {b"content-length", b"transfer-encoding"} or is_bodiless)
        self._is_head_done = True
        self._overhead_bytes = 0
        if self._method == "HEAD":
            self._is_complete = True

    def on_body(self, body: bytes) -> None:
        if self._method != "HEAD":
            self._pieces.append(body)
            self._overhead_bytes = 0

    def on_message_complete(self) -> None:
        if not self._is_head_done or self._is_complete:
            return
        assert self._parser is not None
        self._is_complete = True
        self._can_keep_alive = self._parser.should_keep_alive()

    # ours

    def _expect(self, method: str) -> None:
        self._method = method
        self._status = 0
        self._headers = []
        self._pieces = []
        self._chunks = deque()
        self._buffered_bytes = 0
        self._overhead_bytes = 0
        self.has_received = False
        self._is_head_done = False
        self._is_complete = False
        self._ends_with_connection = False
        self._can_keep_alive = False
        self._wants_upgrade = False
        self._is_upgraded = False
        self._rest = b""

    def _switch(self, rest: bytes) -> None:
        if not self._wants_upgrade or self._status != 101:
            self._fail("an upgrade that was not asked for")
            return
        self._is_head_done = self._is_upgraded = True
        self._rest = rest
        self._transport.pause_reading()  # until `hand_over`

    def _flush_pieces(self) -> None:
        """Merge the pieces of one read into one chunk, so that many tiny chunks do not cost one
        object each while they wait.
        """
        if not self._pieces:
            return
        chunk = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._chunks.append(chunk)
        self._buffered_bytes += len(chunk)
        if self._buffered_bytes > READ_HIGH_BYTES and not self._is_read_paused and self.is_open:
            self._is_read_paused = True
            self._transport.pause_reading()

    def _fail(self, what: str) -> None:
        if self.fault is None:
            self.fault = UpstreamBroken(f"The app sent {what}.")
        self._can_keep_alive = False
        self.abort()

    def _check_open(self) -> None:
        if not self.is_open:
            raise self.fault or UpstreamBroken("The connection was closed.")

    async def _wait(self) -> None:
        self._reader = self._loop.create_future()
        await self._reader

    def _wake(self) -> None:
        if self.listener is not None:
            self.listener()
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
