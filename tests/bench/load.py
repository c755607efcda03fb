"""Load generators that cost little themselves: wrk, blocking sockets, raw frames on uvloop."""

import asyncio
import contextlib
import os
import re
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import uvloop

from tests.bench.backend import MESSAGE, PIECE, REPLY

HANDSHAKE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
REQUESTS_S = 4
ECHOES = 2000
RATE_S = 3.0
SOCKETS, IN_FLIGHT = 16, 8
SLOW_S = 5.0
SLOW_BYTES, SLOW_PAUSE_S = 50_000, 0.1
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Door:
    """Address of an app, with the headers to send."""

    port: int
    headers: dict[str, str] = field(default_factory=dict)

    def request(self, method: str, path: str, **more: str) -> bytes:
        told = {"Host": f"127.0.0.1:{self.port}", **self.headers, **more}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
        return "\r\n".join([*lines, "", ""]).encode()


def requests_per_s(door: Door) -> float:
    """Return requests per second over 32 connections, each for 100 bytes."""
    told = [word for name, value in door.headers.items() for word in ("-H", f"{name}: {value}")]
    url = f"http://127.0.0.1:{door.port}/small"
    argv = ["wrk", "-t1", "-c32", f"-d{REQUESTS_S}s", *told, url]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise SystemExit(f"The load was not answered:\n{said}")
    match = re.search(r"Requests/sec: *([\d.]+)", said)
    assert match, said
    return float(match[1])


def download_mb_per_s(door: Door, size: int) -> float:
    with connected(door) as connection:
        began_at = time.perf_counter()
        connection.sendall(door.request("GET", f"/big?n={size}"))
        left = size - len(read_head(connection))
        piece = memoryview(bytearray(len(PIECE)))
        while left > 0:
            left -= received(connection.recv_into(piece))
        return size / 1e6 / (time.perf_counter() - began_at)


def upload_mb_per_s(door: Door, size: int) -> float:
    with connected(door) as connection:
        began_at = time.perf_counter()
        connection.sendall(door.request("PUT", "/sink", **{"Content-Length": str(size)}))
        for _ in range(size // len(PIECE)):
            connection.sendall(PIECE)
        connection.sendall(PIECE[: size % len(PIECE)])
        read_head(connection)
        return size / 1e6 / (time.perf_counter() - began_at)


def echo_p50_us(door: Door) -> float:
    """Return the median round trip of one message at a time on one websocket, in µs."""
    took = []
    with connected(door, "/echo") as connection:
        for _ in range(ECHOES):
            began_at = time.perf_counter()
            connection.sendall(MESSAGE)
            left = len(REPLY)
            while left:
                left -= received(len(connection.recv(left)))
            took.append(time.perf_counter() - began_at)
    return statistics.median(took) * 1e6


def echoes_per_s(door: Door) -> float:
    """Return echoes per second over 16 websockets with 8 messages in flight each."""
    return uvloop.run(_echo_load(door))


async def _echo_load(door: Door) -> float:
    loop = asyncio.get_running_loop()
    echoes = []
    for _ in range(SOCKETS):
        # Blocking, one by one: nothing else runs on this loop yet.
        connection = opened(door, "/echo")
        connection.setblocking(False)
        _, echo = await loop.create_connection(partial(_Echo, connection.fileno()), sock=connection)
        echoes.append(echo)
    began_at = time.perf_counter()
    for echo in echoes:
        echo.begin()
    await asyncio.sleep(RATE_S)
    count = sum(echo.count for echo in echoes)
    took_s = time.perf_counter() - began_at
    for echo in echoes:
        echo.end()
    if not all(echo.count for echo in echoes):
        raise SystemExit("A websocket fell silent.")
    return count / took_s


class _Echo(asyncio.Protocol):
    """Client that keeps IN_FLIGHT messages in flight; sends each separately, as browsers do."""

    def __init__(self, descriptor: int) -> None:
        self.count = 0
        self._descriptor = descriptor
        self._odd = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def begin(self) -> None:
        self._send(IN_FLIGHT)

    def data_received(self, data: bytes) -> None:
        count, self._odd = divmod(self._odd + len(data), len(REPLY))
        self.count += count
        self._send(count)

    def end(self) -> None:
        self._transport.abort()

    def _send(self, count: int) -> None:
        for _ in range(count):
            os.write(self._descriptor, MESSAGE)


def read_slowly(door: Door, sample: Callable[[], None]) -> None:
    """Download at 500 kB/s; calls `sample` meanwhile."""
    with connected(door) as connection:
        connection.sendall(door.request("GET", f"/big?n={10**9}"))
        give_up_at = time.monotonic() + SLOW_S
        while time.monotonic() < give_up_at:
            received(len(connection.recv(SLOW_BYTES)))
            time.sleep(SLOW_PAUSE_S)
            sample()


def upload_to_slow_app(door: Door, sample: Callable[[], None]) -> None:
    """Upload at full speed to an app that reads 500 kB/s; calls `sample` meanwhile."""
    with connected(door) as connection:
        connection.sendall(door.request("PUT", "/slow", **{"Content-Length": str(10**9)}))
        connection.settimeout(SLOW_PAUSE_S)
        give_up_at = time.monotonic() + SLOW_S
        while time.monotonic() < give_up_at:
            with contextlib.suppress(TimeoutError):
                connection.send(PIECE)
            sample()


def stall_websocket(door: Door, sample: Callable[[], None]) -> None:
    """Open a websocket whose app never stops sending, and read nothing;
    calls `sample` meanwhile.
    """
    with connected(door, "/flood"):
        give_up_at = time.monotonic() + SLOW_S
        while time.monotonic() < give_up_at:
            time.sleep(SLOW_PAUSE_S)
            sample()


@contextlib.contextmanager
def connected(door: Door, websocket: str = "") -> Iterator[socket.socket]:
    connection = opened(door, websocket)
    try:
        yield connection
    finally:
        connection.close()


def opened(door: Door, websocket: str = "") -> socket.socket:
    """Open a connection, or a websocket at the path `websocket`.

    Drops data that the app sends right after the handshake.
    """
    connection = socket.create_connection(("127.0.0.1", door.port), timeout=PATIENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if websocket:
        origin = f"http://{door.headers.get('Host', '127.0.0.1')}"
        connection.sendall(door.request("GET", websocket, Origin=origin, **HANDSHAKE))
        read_head(connection, b"101")
    return connection


def read_head(connection: socket.socket, status: bytes = b"200") -> bytes:
    """Read the head of an answer with this status. Returns the bytes after it."""
    head = b""
    while b"\r\n\r\n" not in head:
        data = connection.recv(2**16)
        received(len(data))
        head += data
    if head.split(b" ", 2)[1] != status:
        raise SystemExit(f"Unexpected answer: {head[:300].decode('latin-1')}")
    return head.partition(b"\r\n\r\n")[2]


def received(count: int) -> int:
    """Return `count`. Raises SystemExit if it is 0: the other side has closed."""
    if not count:
        raise SystemExit("The connection was closed in the middle.")
    return count
