"""One request and its response."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from transport.server.asgi import AsgiApp, Message, Scope
from transport.server.head_parser import RequestHead, encode_answer
from transport.server.types import ExchangeOwner, Tunnel, Watcher

logger = logging.getLogger(__name__)

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_SMALL_BYTES = 16 * 1024
_LAST_CHUNK = b"0\r\n\r\n"


class Exchange:
    """Request that is answered either by an ASGI application (`run`), or from callbacks: `begin`,
    `write`, `end`, in that order.

    Callbacks never wait: after each `flush`, `is_writable` is True if the client keeps up; else the
    watcher is called when it does again. Writes to a client that has left are dropped.
    """

    __slots__ = (
        "_body_bytes",
        "_chunked",
        "_client_waits",
        "_is_body_taken",
        "_left_bytes",
        "_owner",
        "_pieces",
        "_reader",
        "_unsent",
        "has_begun",
        "is_body_whole",
        "is_finished",
        "is_gone",
        "keep_alive",
        "scope",
        "tunnel",
        "watcher",
    )

    def __init__(self, owner: ExchangeOwner, scope: Scope, head: RequestHead, *, keep_alive: bool) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        self.is_body_whole = not head.has_body
        self.has_begun = False
        self.is_finished = False
        self.is_gone = False
        self.watcher: Watcher | None = None
        self.tunnel: Tunnel | None = None
        self._owner = owner
        self._client_waits = head.expects_continue and head.has_body
        self._pieces: list[bytes | bytearray] = []
        self._body_bytes = 0
        self._is_body_taken = False
        self._reader: asyncio.Future[None] | None = None
        self._chunked = False
        self._left_bytes = -1
        self._unsent = b""

    # ASGI

    def run(self, app: AsgiApp) -> None:
        """Start the application in a task; this object is its scope extension `berth.exchange`."""
        self.scope["extensions"]["berth.exchange"] = self
        self._owner.launch(self._run(app))

    async def receive(self) -> Message:
        if self._client_waits and not self.has_begun:
            self._client_waits = False
            self._owner.write(_CONTINUE)
        while not (self.is_gone or self.is_finished):
            if self._pieces or (self.is_body_whole and not self._is_body_taken):
                return self._take_body()
            self._reader = self._owner.loop.create_future()
            await self._reader
        return {"type": f"{self.scope['type']}.disconnect"}

    async def send(self, message: Message) -> None:
        if not self.is_writable:
            await self._owner.drained()
        if self.is_gone:
            return
        kind = message["type"].removeprefix("websocket.")
        if kind == "http.response.body":
            body = message.get("body", b"")
            self.write(body)
            if message.get("more_body", False):
                self.flush()
            else:
                self.end()
        elif kind == "http.response.start":
            self.begin(message["status"], message.get("headers", ()))
            self._owner.loop.call_soon(self.flush)
        elif kind == "close" and self.tunnel is not None:
            self.tunnel.close(message.get("code", 1000), message.get("reason") or "")
        elif kind == "close":
            self.answer(403, (), b"")
        else:
            raise RuntimeError(f"An application cannot send {message['type']!r} here.")

    # Without a task

    @property
    def is_writable(self) -> bool:
        """True if the client reads as fast as we write, or has left."""
        return self.is_gone or not self._owner.is_write_paused

    def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Write the head; it is sent with the next write or `flush`. Framing by length or chunks
        follows from its fields. Raises ValueError for fields that cannot be sent.
        """
        if self.has_begun:
            raise RuntimeError("The answer has begun already.")
        self._unsent = encode_answer(status, self._framed(status, headers))
        self.has_begun = True

    def flush(self) -> None:
        """Send buffered bytes."""
        if self._unsent and not self.is_gone:
            unsent, self._unsent = self._unsent, b""
            self._owner.write(unsent)

    def write(self, data: bytes) -> None:
        """Write a piece of the body; a small one is sent with the next, or with `flush`. Raises
        RuntimeError if the body exceeds its Content-Length.
        """
        if self.is_finished or not self.has_begun:
            raise RuntimeError("The answer has not begun, or has ended.")
        if not data or self.is_gone or self.scope.get("method") == "HEAD":
            return
        if self._left_bytes >= 0:
            if len(data) > self._left_bytes:
                raise RuntimeError("The answer is longer than its Content-Length.")
            self._left_bytes -= len(data)
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        self._unsent = self._unsent + data if self._unsent else data
        if len(self._unsent) > _SMALL_BYTES:
            self.flush()

    def end(self) -> None:
        """Finish the response; one shorter than its Content-Length is cut."""
        if self._left_bytes > 0 and self.scope.get("method") != "HEAD":
            self.cut()
            return
        self._finish()
        if self.is_gone:
            return
        if self._chunked:
            self._unsent += _LAST_CHUNK
        self.flush()
        self._owner.on_answered(can_continue=self.keep_alive and self.is_body_whole)

    def cut(self) -> None:
        """Abort the response so that the client detects that it is incomplete."""
        self.flush()
        self._finish()
        self._owner.break_off(is_hard=not self._chunked and self._left_bytes < 0)

    def answer(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a complete short response."""
        self.begin(status, (*headers, (b"content-length", b"%d" % len(body))))
        self.write(body)
        self.end()

    def open_tunnel(self, head: bytes, tunnel: Tunnel, inner: asyncio.Protocol) -> asyncio.Transport:
        """Send the head of a 101; hand over the connection to `inner`, with early bytes."""
        self.has_begun = True
        self.tunnel = tunnel
        return self._owner.become_tunnel(head, inner)

    # Called by the connection

    def feed(self, data: bytes) -> bool:
        """Add a piece of the request's body. Returns False if more is buffered than the limit."""
        if (
            self._pieces and len(data) < _SMALL_BYTES
        ):  # merged, so that tiny chunks do not cost one object each
            if not isinstance(self._pieces[-1], bytearray):
                self._pieces[-1] = bytearray(self._pieces[-1])
            self._pieces[-1] += data
        else:
            self._pieces.append(data)
        self._body_bytes += len(data)
        self._wake()
        return self._body_bytes <= self._owner.limits.taken_ahead_bytes

    def end_body(self) -> None:
        self.is_body_whole = True
        self._wake()

    @property
    def awaits_body(self) -> bool:
        """True if an application waits for more of the request's body."""
        return not self.is_body_whole and not self._pieces and self._reader is not None

    def mark_gone(self) -> None:
        """Mark the client as gone, and notify the reader and the watcher."""
        self.is_gone = True
        self._wake()
        if self.watcher is not None:
            self.watcher.on_gone()

    async def _run(self, app: AsgiApp) -> None:
        try:
            await app(self.scope, self.receive, self.send)
        except Exception:
            logger.exception("the application failed")
        finally:
            self.scope["extensions"].pop("berth.exchange", None)  # breaks the reference cycle
            if self.tunnel is None and not (self.is_finished or self.is_gone):
                self._complete()

    def _complete(self) -> None:
        """Complete a response that the application left unfinished: cut it, or answer 500."""
        if self.has_begun:
            self.cut()
            return
        self.keep_alive = False
        self.answer(500, ((b"content-type", b"text/plain; charset=utf-8"),), b"Internal Server Error")

    def _take_body(self) -> Message:
        only = self._pieces[0] if len(self._pieces) == 1 else None
        body = only if isinstance(only, bytes) else b"".join(self._pieces)
        self._pieces.clear()
        self._body_bytes = 0
        self._is_body_taken = self.is_body_whole
        if not self.is_body_whole:
            self._owner.want_body()
        if self.scope["type"] == "websocket":
            return {"type": "websocket.connect"}
        return {"type": "http.request", "body": body, "more_body": not self.is_body_whole}

    def _framed(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[bytes, bytes]]:
        fields = [self._owner.date_header]
        is_bodiless = status in (204, 304) or status < 200
        has_length = False
        self._chunked, self._left_bytes = False, -1  # a previous `begin` may have raised
        for name, value in headers:
            name = name.lower()
            if name == b"content-length":
                if status == 204 or has_length:
                    continue
                has_length = True
                self._left_bytes = 0 if is_bodiless else int(value)
            elif name == b"transfer-encoding":
                continue
            elif name == b"connection":
                self.keep_alive = self.keep_alive and b"close" not in value.lower()
                continue
            fields.append((name, value))
        if not (has_length or is_bodiless or self.scope.get("method") == "HEAD"):
            self._chunked = self.scope["http_version"] == "1.1"
            self.keep_alive = self.keep_alive and self._chunked
            if self._chunked:
                fields.append((b"transfer-encoding", b"chunked"))
        elif is_bodiless:
            self._left_bytes = 0
        if not self.is_body_whole:
            self.keep_alive = False  # the rest of the request may never come
        if not self.keep_alive:
            fields.append((b"connection", b"close"))
        return fields

    def _finish(self) -> None:
        self.is_finished = True
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class PreAppHandler(Protocol):
    """Pre-app handler. Both methods are called while input is parsed and must return at once."""

    def handle(self, exchange: Exchange) -> bool:
        """Return True if the handler answers this request, which has no body, else False."""

    def owns(self, scope: Scope) -> bool:
        """Return True if the application takes over websockets of this address as tunnels; it finds
        the exchange as `scope["extensions"]["berth.exchange"]`.
        """
