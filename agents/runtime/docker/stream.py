"""Raw bidirectional streams to an engine, made by upgrading an HTTP connection, plain or over TLS.
No threads; buffers are bounded on both sides.
"""

import asyncio
import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

from agents.runtime.addresses import UNIX
from agents.runtime.docker.connection import CONNECT_TIMEOUT_S, fault_of_answer
from agents.runtime.port import RuntimeUnavailable

READ_BYTES = 2**16
HELD_BYTES = 2**16
"""Bytes that may wait here unread before the engine is held back; asyncio buffers twice as much."""

HEAD_BYTES = 2**14
STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([0-9]{3})\b")
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]{1,9})", re.IGNORECASE)
ANSWER_TIMEOUT_S = 30
REFUSAL_BYTES = 2**12

T = TypeVar("T")


class Stream(ABC):
    """Bidirectional byte stream."""

    @abstractmethod
    async def read(self) -> bytes:
        """Return the next bytes; b"" at the end. Raises OSError."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send without waiting; does nothing after `end_output`."""

    @property
    @abstractmethod
    def unwritten_bytes(self) -> int:
        """Bytes written but not sent yet."""

    @abstractmethod
    async def drain(self) -> None:
        """Wait until the write buffer is nearly empty. Raises OSError."""

    @abstractmethod
    async def end_output(self) -> None:
        """Close the sending direction; the other side may continue to send."""

    @abstractmethod
    def close(self) -> None:
        """Close both directions at once."""


class PlainStream(Stream):
    """Stream over a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._has_ended = False

    async def read(self) -> bytes:
        return await self._reader.read(READ_BYTES)

    def write(self, data: bytes) -> None:
        if not self._has_ended and not self._writer.is_closing():
            self._writer.write(data)

    @property
    def unwritten_bytes(self) -> int:
        return self._writer.transport.get_write_buffer_size()  # type: ignore[no-any-return]

    async def drain(self) -> None:
        await self._writer.drain()

    async def end_output(self) -> None:
        self._has_ended = True
        if self._writer.can_write_eof() and not self._writer.is_closing():
            with suppress(OSError):  # after a hang-up of the other side, its last data can still be read
                self._writer.write_eof()

    def close(self) -> None:
        self._writer.transport.abort()


class TlsStream(Stream):
    """TLS over another stream, in memory.
    Unlike asyncio's TLS it can half-close: end its own direction and still read.
    """

    def __init__(self, plain: Stream, context: ssl.SSLContext, server_name: str) -> None:
        self._plain = plain
        self._come = ssl.MemoryBIO()
        self._go = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._come, self._go, server_hostname=server_name)
        self._early = b""
        self._has_ended = False

    async def shake_hands(self) -> None:
        await self._done(self._tls.do_handshake)

    async def read(self) -> bytes:
        if self._early:
            early, self._early = self._early, b""
            return early
        try:
            return await self._done(partial(self._tls.read, READ_BYTES))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def write(self, data: bytes) -> None:
        if data and not self._has_ended:
            self._tls.write(data)
            self._send()

    @property
    def unwritten_bytes(self) -> int:
        return self._plain.unwritten_bytes

    async def drain(self) -> None:
        await self._plain.drain()

    async def end_output(self) -> None:
        """Send the TLS close alert.
        OpenSSL refuses that while received data is unread, so that data is kept for the next read.
        """
        self._has_ended = True
        with suppress(ssl.SSLError):
            while data := self._tls.read(READ_BYTES):
                self._early += data
        with suppress(ssl.SSLError):  # our close alert is written; the other side's is still to come
            self._tls.unwrap()
        self._send()

    def close(self) -> None:
        self._plain.close()

    def _send(self) -> None:
        if data := self._go.read():
            self._plain.write(data)

    async def _done(self, step: Callable[[], T]) -> T:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._send()
                data = await self._plain.read()
                if data:
                    self._come.write(data)
                else:
                    self._come.write_eof()
            else:
                self._send()
                return result


async def connect(address: str, tls: ssl.SSLContext | None) -> Stream:
    """Open a stream to `unix:///path` or `tcp://host:port`.
    Raises OSError, TimeoutError.
    """
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        if address.startswith(UNIX):
            path = address.removeprefix(UNIX)
            return PlainStream(*await asyncio.open_unix_connection(path, limit=HELD_BYTES))
        place = urlsplit(address)
        host = place.hostname or ""
        plain = PlainStream(*await asyncio.open_connection(host, place.port, limit=HELD_BYTES))
        if tls is None:
            return plain
        stream = TlsStream(plain, tls, host)
        try:
            await stream.shake_hands()
        except BaseException:
            plain.close()
            raise
        return stream


async def hijack(address: str, tls: ssl.SSLContext | None, path: str, body: bytes) -> tuple[Stream, bytes]:
    """POST `body` (JSON) to `path` and take over the connection; return the stream and the bytes
    already received. Raises the RuntimeFault of a refusal, OSError, TimeoutError.
    """
    stream = await connect(address, tls)
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            stream.write(_request(path, body))
            return stream, await _rest_after_head(stream)
    except BaseException:
        stream.close()
        raise


def _request(path: str, body: bytes) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\n"
        f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def _rest_after_head(stream: Stream) -> bytes:
    answer = b""
    while b"\r\n\r\n" not in answer:
        data = await stream.read()
        answer += data
        if not data or len(answer) > HEAD_BYTES:
            raise RuntimeUnavailable("The engine broke off, or does not speak HTTP.")
    head, _, rest = answer.partition(b"\r\n\r\n")
    status = int(match[1]) if (match := STATUS_LINE.match(head)) else 0
    if status not in (101, 200):
        raise fault_of_answer(status or 502, await _refusal(stream, head, rest))
    return rest


async def _refusal(stream: Stream, head: bytes, text: bytes) -> str:
    """Return the engine's error message, as far as Content-Length covers it."""
    match = CONTENT_LENGTH.search(head)
    wanted = min(int(match[1]), REFUSAL_BYTES) if match else 0
    while len(text) < wanted and (data := await stream.read()):
        text += data
    return text[:REFUSAL_BYTES].decode(errors="replace")
