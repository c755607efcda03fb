"""Memory of the server process while one side of a connection does not read."""

import base64
import contextlib
import hashlib
import socket
import socketserver
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.waiting import wait_until
from tests.ws.proxy_process import proxy_process, rss_bytes

MIB = 2**20
BLOCK = bytes(256 * 1024)
GROWTH_BYTES = 20 * MIB
# What an app could send with nobody to read it: our buffers and those of four sockets of the system.
ON_THE_WAY_BYTES = 64 * MIB
ENDLESS_BYTES = 512 * MIB
QUIET_S = 0.5
PATIENCE_S = 60
KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = base64.b64encode(
    hashlib.sha1(KEY + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False).digest()
)
FRAME = b"\x82\x7f" + len(BLOCK).to_bytes(8, "big") + BLOCK


@dataclass
class FlowControl:
    """What has passed one end, and since when nothing has."""

    count: int = 0
    moved_at: float = field(default_factory=time.monotonic)

    def add(self, size: int) -> None:
        self.count += size
        self.moved_at = time.monotonic()

    def has_stopped(self) -> bool:
        return self.count > 0 and time.monotonic() - self.moved_at > QUIET_S


class Torrent(socketserver.ThreadingTCPServer):
    """Sends without end, or takes nothing in."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sent: defaultdict[bytes, FlowControl] = defaultdict(FlowControl)  # {target: …}
        self.is_over = threading.Event()


class _Handler(socketserver.StreamRequestHandler):
    server: Torrent

    def handle(self) -> None:
        target = self.rfile.readline().split(b" ")[1]
        while self.rfile.readline() != b"\r\n":
            pass
        if target == b"/sink":
            self.server.is_over.wait()
            return
        with contextlib.suppress(OSError):
            if target == b"/websocket":
                head = (
                    b"HTTP/1.1 101 OK\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "
                )
                self._pour(head + ACCEPT + b"\r\n\r\n", FRAME, self.server.sent[target])
            else:
                head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % ENDLESS_BYTES
                self._pour(head, BLOCK, self.server.sent[target])

    def _pour(self, head: bytes, piece: bytes, sent: FlowControl) -> None:
        self.request.sendall(head)
        while sent.count < ENDLESS_BYTES:
            self.request.sendall(piece)
            sent.add(len(piece))


@dataclass(frozen=True, slots=True)
class Stage:
    app: Torrent
    port: int
    pid: int

    def connect(self, request: bytes) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        connection.sendall(request)
        return connection


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Torrent() as app, proxy_process(app.server_address[1]) as (port, pid):
        thread = threading.Thread(target=app.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield Stage(app, port, pid)
        finally:
            app.is_over.set()
            app.shutdown()
            thread.join()


def warm(stage: Stage) -> int:
    """The memory of a server that has carried something."""
    with stage.connect(b"GET /warm HTTP/1.1\r\nHost: a\r\n\r\n") as connection:
        left = 16 * MIB
        while left > 0:
            left -= len(connection.recv(2**18))
    return rss_bytes(stage.pid)


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
def test_a_reader_who_stops_costs_no_memory(stage: Stage, connection: str) -> None:
    before = warm(stage)
    sent = stage.app.sent[b"/" + connection.encode()]
    request = f"GET /{connection} HTTP/1.1\r\nHost: a\r\nConnection: {connection}\r\n\r\n"
    with stage.connect(request.encode()) as reader:
        reader.recv(1)
        wait_until(sent.has_stopped, deadline_s=PATIENCE_S)
        assert sent.count < ON_THE_WAY_BYTES
        assert rss_bytes(stage.pid) - before < GROWTH_BYTES


def test_a_websocket_that_is_not_read_costs_no_memory(stage: Stage) -> None:
    before = warm(stage)
    sent = stage.app.sent[b"/websocket"]
    handshake = b"GET /websocket HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    with stage.connect(handshake + b"Sec-WebSocket-Key: " + KEY + b"\r\n\r\n") as connection:
        connection.recv(1)
        wait_until(sent.has_stopped, deadline_s=PATIENCE_S)
        assert sent.count < ON_THE_WAY_BYTES
        assert rss_bytes(stage.pid) - before < GROWTH_BYTES


@pytest.mark.parametrize("is_chunked", [False, True])
def test_an_upload_to_an_app_that_takes_nothing_costs_no_memory(stage: Stage, is_chunked: bool) -> None:
    before = warm(stage)
    framing = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % ENDLESS_BYTES
    piece = b"%x\r\n%b\r\n" % (len(BLOCK), BLOCK) if is_chunked else BLOCK
    uploaded = FlowControl()
    with stage.connect(b"PUT /sink HTTP/1.1\r\nHost: a\r\n" + framing + b"\r\n\r\n") as connection:
        connection.settimeout(0.05)
        rest = b""

        def push() -> bool:
            nonlocal rest
            rest = rest or piece
            with contextlib.suppress(TimeoutError):
                while uploaded.count < ENDLESS_BYTES:
                    size = connection.send(rest)
                    uploaded.add(size)
                    rest = rest[size:] or piece
            return uploaded.has_stopped()

        wait_until(push, deadline_s=PATIENCE_S)
        assert uploaded.count < ON_THE_WAY_BYTES
        assert rss_bytes(stage.pid) - before < GROWTH_BYTES


def test_many_idle_and_half_open_connections_cost_little(stage: Stage) -> None:
    warm(stage)
    connections = [stage.connect(b"GET /x HTTP/1.1\r\nHo") for _ in range(50)]
    before = rss_bytes(stage.pid)
    connections += [stage.connect(b"GET /x HTTP/1.1\r\nHo") for _ in range(200)]
    connections += [stage.connect(b"") for _ in range(200)]
    assert rss_bytes(stage.pid) - before < GROWTH_BYTES
    for connection in connections:
        connection.close()
