"""App behind both proxies of the gateway bench: raw bytes on uvloop, so that it costs little.

python -m tests.bench.backend        # prints its port

GET /small returns 100 bytes, GET /big returns `?n` bytes; PUT /sink reads a body, PUT /slow reads
it at 500 kB/s. Websockets: /echo answers each MESSAGE with MESSAGE, /flood sends without end.
"""

import asyncio
import base64
import hashlib
import os
import re
import sys

import uvloop

TEXT = b"0123456789abcdef0123456789abcdef"
# As clients send it (masked) and as servers do; only lengths are checked, so any mask will do.
MESSAGE = bytes((0x81, 0x80 | len(TEXT), 0, 0, 0, 0)) + TEXT
REPLY = bytes((0x81, len(TEXT))) + TEXT
CLOSE = 0x88

SMALL = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n" + b"x" * 100
DONE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PIECE = bytes(2**18)
FLOOD = bytes((0x82, 127)) + (2**16).to_bytes(8, "big") + bytes(2**16)
WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
SLOW_PAUSE_S = 0.1
SLOW_BYTES = 50_000


class App(asyncio.Protocol):
    """One connection to the app."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._buffer = b""
        self._body_left = 0
        self._is_slow = False
        self._is_echo = False
        self._writer: asyncio.Task[None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._writer:
            self._writer.cancel()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def data_received(self, data: bytes) -> None:
        if self._is_echo:
            self._echo(data)
        elif self._body_left:
            self._take(data)
        else:
            self._buffer += data
            while b"\r\n\r\n" in self._buffer and not self._body_left:
                head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
                self._answer(head)

    def _answer(self, head: bytes) -> None:
        method, path = head.split(b" ", 2)[:2]
        if path.startswith(b"/small"):
            self._transport.write(SMALL)
        elif method == b"PUT":
            self._is_slow = path.startswith(b"/slow")
            self._body_left = _number(rb"(?im)^content-length: *(\d+)", head)
            body, self._buffer = self._buffer, b""
            if body:
                self._take(body)
        elif path.startswith(b"/big"):
            self._writer = asyncio.get_running_loop().create_task(self._send_big(_number(rb"n=(\d+)", path)))
        else:
            self._upgrade(head, is_echo=path.startswith(b"/echo"))

    def _take(self, data: bytes) -> None:
        self._body_left -= len(data)
        if self._body_left <= 0:
            self._transport.write(DONE)
        elif self._is_slow:
            self._transport.pause_reading()
            pause_s = SLOW_PAUSE_S * len(data) / SLOW_BYTES
            asyncio.get_running_loop().call_later(pause_s, self._go_on)

    def _go_on(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    async def _send_big(self, size: int) -> None:
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while size and not self._transport.is_closing():
            await self._may_write.wait()
            self._transport.write(PIECE[:size])
            size -= min(size, len(PIECE))

    def _upgrade(self, head: bytes, *, is_echo: bool) -> None:
        match = re.search(rb"(?im)^sec-websocket-key: *(\S+)", head)
        assert match, head
        accept = base64.b64encode(hashlib.sha1(match[1] + WEBSOCKET_GUID).digest())
        self._transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: %b\r\n\r\n" % accept
        )
        self._is_echo = is_echo
        if not is_echo:
            self._writer = asyncio.get_running_loop().create_task(self._flood())

    def _echo(self, data: bytes) -> None:
        data = self._buffer + data
        count, rest = divmod(len(data), len(MESSAGE))
        self._buffer = data[-rest:] if rest else b""
        # One message at a time, as apps do: a proxy that only copies bytes would gain from messages
        # that uvloop joins.
        for _ in range(count):
            os.write(self._transport.get_extra_info("socket").fileno(), REPLY)
        if self._buffer[:1] == bytes((CLOSE,)):
            self._transport.close()

    async def _flood(self) -> None:
        while not self._transport.is_closing():
            await self._may_write.wait()
            self._transport.write(FLOOD)
            await asyncio.sleep(0)  # a lost transport never reports that it is full


def _number(pattern: bytes, text: bytes) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(App, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(uvloop.run(serve()))
