"""An engine that drips its answer, or takes a request by the byte, holds a thread for a bounded time."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from agents.runtime.docker.connection import TRANSPORT_FAULTS, EngineClient
from agents.runtime.docker.deadlines import Limits, limited
from agents.runtime.endpoints import Endpoint

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
LIMIT_S = 0.5
Server = Callable[[bytes, bytes], EngineClient]


@pytest.fixture(params=["unix", "tcp"])
def dripping(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """Start an engine that sends something at once, and then a byte every tenth of the limit for ever."""
    is_over, listeners = Event(), list[socket.socket]()

    def start(at_once: bytes, byte: bytes) -> EngineClient:
        if request.param == "unix":
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(f"{tmp_path}/engine")
            url = f"unix://{tmp_path}/engine"
        else:
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))
            url = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        listener.listen()
        listeners.append(listener)

        def serve() -> None:
            sock, _ = listener.accept()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            try:
                sock.sendall(at_once)
                while not is_over.wait(LIMIT_S / 10):
                    sock.sendall(byte) if byte else sock.recv(1)
            except OSError:
                pass
            sock.close()

        Thread(target=serve, daemon=True).start()
        return EngineClient(Endpoint(url, url), "1.41")

    yield start
    is_over.set()
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize(("at_once", "byte", "body"), [
    (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x", b""),
    (HEAD, b"x", b""),
    (b"", b"", b"x" * 2**23),
], ids=["head", "body", "request"])  # fmt: skip
def test_engine_that_goes_on_by_the_byte_is_given_up_in_time(
    dripping: Server, at_once: bytes, byte: bytes, body: bytes
) -> None:
    client = dripping(at_once, byte)
    began_at = time.monotonic()
    with pytest.raises(TRANSPORT_FAULTS), limited(Limits(1, 1, LIMIT_S, LIMIT_S)):
        client.put(client.url_of("/x"), data=body)
    assert LIMIT_S <= time.monotonic() - began_at < 10 * LIMIT_S


def test_stream_may_take_longer_than_its_head(dripping: Server) -> None:
    client = dripping(HEAD, b"x")
    with limited(Limits(1, 1, LIMIT_S, 60)), client.get(client.url_of("/x"), stream=True) as answer:
        until = time.monotonic() + 2 * LIMIT_S
        while time.monotonic() < until:
            assert answer.raw.read(1) == b"x"
