"""Any cut of any bytes reads as the same requests; each is answered, never with 5xx."""

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from transport.server import Exchange, HttpProtocol, protocol_class
from transport.server.asgi import Receive, Scope, Send

PIECES = [
    b"GET /a HTTP/1.1\r\n",
    b"POST /b HTTP/1.1\r\n",
    b"HEAD /c HTTP/1.0\r\n",
    b"Host: a\r\n",
    b"Content-Length: 3\r\n",
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: \tchunked\r\n",
    b"Connection: close\r\n",
    b"Connection: upgrade\r\nUpgrade: h2c\r\n",
    b"Expect: 100-continue\r\n",
    b"X: y\r\n",
    b" folded\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"abc",
    b"3\r\nabc\r\n",
    b"0\r\n\r\n",
    b"0\r\nX: y\r\n\r\n",
    b"3;e=f\r\nabc\r\n",
    b"ffffffffffffffffff\r\n",
]


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.sent = b""
        self.is_closing = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.is_closing = True

    write_eof = abort = close

    def can_write_eof(self) -> bool:
        return True

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else None

    def __getattr__(self, name: str) -> Any:
        return lambda *_args, **_more: None


class Everybody:
    """Answers what has no body at once, and the rest as an application that reads it all."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def handle(self, exchange: Exchange) -> bool:
        self.seen.append((exchange.scope["method"], exchange.scope["path"]))
        exchange.answer(200, (), b"ok")
        return True

    def owns(self, scope: Scope) -> bool:
        return False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        self.seen.append((scope["method"], f"{scope['path']} {body.decode()}"))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


async def carried(stream: bytes, cuts: list[int]) -> tuple[list[tuple[str, str]], list[bytes]]:
    """What the application saw, and the status lines that the client got."""
    app = Everybody()
    server = SimpleNamespace(
        connections=set(), tasks=set(), total_requests=0, default_headers=[(b"date", b"today")]
    )
    protocol: HttpProtocol = protocol_class(pre_app_handler=app)(SimpleNamespace(loaded_app=app), server, {})
    wire = Wire()
    protocol.connection_made(wire)  # type: ignore[arg-type]
    positions = [0, *sorted({cut % (len(stream) + 1) for cut in cuts}), len(stream)]
    for start, end in pairwise(positions):
        if start < end:
            protocol.data_received(stream[start:end])
        while server.tasks and not wire.is_closing and _is_moving(protocol):
            await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    protocol.connection_lost(None)
    await asyncio.gather(*server.tasks)
    return app.seen, [line for line in wire.sent.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]


def _is_moving(protocol: HttpProtocol) -> bool:
    """Whether the current exchange has all it needs to go on."""
    return protocol._current is not None and protocol._current.is_body_whole


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=6)), max_size=14),
    st.lists(st.integers(0, 400), max_size=6),
)
def test_any_cut_of_any_bytes_is_read_alike(pieces: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(pieces)
    whole = asyncio.run(carried(stream, []))
    cut = asyncio.run(carried(stream, cuts))
    assert cut[0] == whole[0]
    for _, lines in (whole, cut):
        assert all(b" 100 " in line or b" 2" in line or b" 4" in line for line in lines)
    finals = [[line for line in lines if b" 100 " not in line] for _, lines in (whole, cut)]
    assert finals[0] == finals[1]
