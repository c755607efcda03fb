"""Client connection: parses requests strictly, within limits, and answers them in order."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from enum import Enum, auto
from typing import Any, cast

import httptools

from transport.server.asgi import http_scope
from transport.server.connection_registry import ConnectionRegistry
from transport.server.exchange import Exchange, PreAppHandler
from transport.server.flow_control import FlowControl
from transport.server.forwarded import TrustedProxies
from transport.server.head_parser import (
    Fields,
    Refused,
    check_size,
    check_websocket,
    encode_answer,
    encode_refusal,
    read_head,
)
from transport.server.limits import Limits
from transport.server.slow_client import SlowClientGuard, Verdict
from transport.server.sockets import addresses, notice_vanishing, reset
from transport.server.upgrade import UpgradedProtocol, hand_over, make_websocket_scope

_NEVER = float("inf")
_BUSY = encode_answer(503, ((b"content-length", b"0"), (b"retry-after", b"5"), (b"connection", b"close")))


class Phase(Enum):
    IDLE = auto()  # before the first byte of a request
    HEAD = auto()
    BODY = auto()  # and the answer, which may begin before the body has ended
    CLOSING = auto()  # the last response is written; further input is dropped
    TUNNEL = auto()  # or about to become one
    GONE = auto()


class HttpProtocol(FlowControl):
    """Client connection, created by uvicorn. `protocol_class` adds the state that they share."""

    pre_app_handler: PreAppHandler | None = None
    limits: Limits = Limits()
    registry: ConnectionRegistry
    proxies: TrustedProxies | None = None

    _url: bytes
    _fields: Fields

    def __init__(
        self,
        config: Any,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(_loop or asyncio.get_running_loop())
        self.deadline = _NEVER
        self._config = config
        self._server = server_state
        self._app_state = app_state
        self._phase = Phase.IDLE
        self._parser = httptools.HttpRequestParser(self)
        self._current: Exchange | None = None  # being answered
        self._latest: Exchange | None = None  # being read
        self._queue: deque[Exchange] = deque()
        self._refusal: Refused | None = None
        self._overhead_bytes = 0
        self._arrived_bytes = self._fed_bytes = self._begun_at_bytes = 0
        self._slow_client_guard = SlowClientGuard(self.limits)
        self._early = b""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not derive from asyncio's
        self._peer, self._own = addresses(transport)
        is_proxy = self.proxies is not None and self.proxies.trusts(self._peer[0])
        if not self.registry.add(self, "" if is_proxy else self._peer[0]):
            self._transport.write(_BUSY)
            self._phase = Phase.GONE
            self._transport.close()
            return
        self._server.connections.add(self)
        self._transport.set_write_buffer_limits(high=self.limits.unsent_bytes)
        notice_vanishing(transport)
        self.deadline = self.loop.time() + self.limits.idle_s

    def data_received(self, data: bytes) -> None:
        if self._phase is Phase.CLOSING or self._phase is Phase.GONE:
            return
        if self._phase is Phase.TUNNEL:
            self._buffer_early(data)
            return
        if self._phase is Phase.IDLE:
            self._phase = Phase.HEAD
            if self._current is None:
                self.deadline = self.loop.time() + self.limits.head_s
        self._overhead_bytes += len(data)
        self._fed_bytes = self._arrived_bytes
        self._arrived_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as exc:
            self._refuse(self._refusal or Refused(400, f"This is not a request of HTTP/1.1: {exc}."))
        else:
            if self._overhead_bytes > self.limits.overhead_bytes:
                self._refuse(Refused(431 if self._phase is Phase.HEAD else 400, "The request has no end."))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._phase = Phase.GONE
        self.deadline = _NEVER
        self.registry.remove(self)
        self._server.connections.discard(self)
        if self._current is not None:
            self._current.mark_gone()
        for exchange in self._queue:
            exchange.mark_gone()
        self._queue.clear()
        self.resume_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._current is not None and self._current.watcher is not None:
            self._current.watcher.on_writable()

    # httptools

    def on_message_begin(self) -> None:
        self._url = b""
        self._fields = []
        self._overhead_bytes = 0
        self._begun_at_bytes = self._fed_bytes
        self._phase = Phase.HEAD

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > self.limits.target_bytes:
            raise self._stop(414, "The address of the request is too long.")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase is not Phase.HEAD:
            return  # trailers count towards the limits, but are dropped
        self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        method, version = parser.get_method(), parser.get_http_version()
        try:
            check_size(self._fields, self.limits, self._arrived_bytes - self._begun_at_bytes)
            head = read_head(method, self._url, version, self._fields)
            if head.is_websocket:
                check_websocket(method, version, head, self._fields)
            elif parser.should_upgrade() and head.has_body:
                raise Refused(400, "No other protocol is spoken here.")
        except Refused as exc:
            self._refusal = exc
            raise
        scheme, client = "http", self._peer
        if self.proxies is not None:
            scheme, client = self.proxies.origin(self._peer, self._fields)
        scope = http_scope(method.decode(), version, head, self._fields)
        scope.update(scheme=scheme, client=client, server=self._own, state=self._app_state.copy())
        keep_alive = version == "1.1" and parser.should_keep_alive()
        exchange = Exchange(self, scope, head, keep_alive=keep_alive)
        self._latest = exchange
        self._phase = Phase.BODY
        if head.is_websocket:
            self._phase = Phase.TUNNEL
        elif self._current is None:
            self._start(exchange)
        elif len(self._queue) < self.limits.queued_requests:
            self._queue.append(exchange)
            self._pause_reading()
        else:
            raise self._stop(429, "Too many requests wait for the answer to an earlier one.")

    def on_body(self, body: bytes) -> None:
        size = len(body)
        self._slow_client_guard.body_bytes += size
        earned = size * (1 + self.limits.overhead_for_each_byte)
        self._overhead_bytes = max(0, self._overhead_bytes - earned)
        exchange = self._latest
        if exchange is not None and not exchange.is_finished and not exchange.feed(body):
            self._pause_reading()

    def on_message_complete(self) -> None:
        if self._phase is Phase.TUNNEL or self._latest is None:
            return
        exchange, self._latest = self._latest, None
        if self._phase is Phase.BODY:
            self._phase = Phase.IDLE if exchange.keep_alive else Phase.CLOSING
        exchange.end_body()
        if self._current is None and self._phase is Phase.IDLE:
            self._await_request()

    # ExchangeOwner

    def launch(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    @property
    def date_header(self) -> tuple[bytes, bytes]:
        return cast("tuple[bytes, bytes]", self._server.default_headers[0])

    def want_body(self) -> None:
        if self._is_read_paused and not self._queue and self._phase is Phase.BODY:
            self._resume_reading()

    def on_answered(self, *, can_continue: bool) -> None:
        self._server.total_requests += 1
        self._current = None
        if self._phase is Phase.GONE:
            return
        if not can_continue or self._phase is Phase.TUNNEL:
            self._linger()
        elif self._queue:
            self._start(self._queue.popleft())
            self.want_body()  # reading was paused while another was answered
        elif self._refusal is not None:
            self._answer_refusal(self._refusal)
        else:
            self._resume_reading()
            if self._latest is None:
                self._await_request()

    def break_off(self, *, is_hard: bool) -> None:
        self._current = None
        if self._phase is Phase.GONE:
            return
        if is_hard:
            reset(self._transport)
            return
        self._phase = Phase.CLOSING
        self.deadline = self.loop.time() + self.limits.linger_s
        self._transport.close()

    def become_tunnel(self, head: bytes, inner: asyncio.Protocol) -> asyncio.Transport:
        self.deadline = _NEVER
        self._transport.write(head)
        self._transport.set_protocol(UpgradedProtocol(self, inner))
        inner.connection_made(self._transport)
        if self._early:
            inner.data_received(self._early)
            self._early = b""
        self._resume_reading()
        return self._transport

    # Called by the connection registry and the server

    @property
    def is_idle(self) -> bool:
        return self._phase is Phase.IDLE and self._current is None

    def on_deadline(self) -> None:
        if self._current is not None:
            self._check_client(self._current)
        elif self._phase in (Phase.CLOSING, Phase.IDLE) and self._transport.get_write_buffer_size():
            self._check_response_read()
        elif self._phase is Phase.CLOSING or self._phase is Phase.IDLE:
            self._transport.abort()
        else:
            self._refuse(Refused(408, "The request did not arrive in time."))

    def abort(self) -> None:
        self._transport.abort()

    def shutdown(self) -> None:
        """Accept no further request: close when idle, else after the current response."""
        if self._current is None:
            self._transport.close()
        elif self._current.tunnel is not None:
            self._current.tunnel.close(1012, "The portal restarts.")
        else:
            self._current.keep_alive = False

    # ours

    @property
    def _is_gone(self) -> bool:
        return self._phase is Phase.GONE

    def _start(self, exchange: Exchange) -> None:
        self._current = exchange
        self.deadline = self.loop.time() + self.limits.pace_s
        self._slow_client_guard.start()
        if (
            exchange.is_body_whole
            and self.pre_app_handler is not None
            and self.pre_app_handler.handle(exchange)
        ):
            return
        exchange.run(self._config.loaded_app)

    def _await_request(self) -> None:
        """Set the deadline of a connection without current exchange; a head may have begun."""
        limits = self.limits
        self.deadline = self.loop.time() + (limits.head_s if self._phase is Phase.HEAD else limits.idle_s)

    def _check_client(self, exchange: Exchange) -> None:
        """Check, every `pace_s`, that the client is there, sends its body, reads its response."""
        self.deadline = self.loop.time() + self.limits.pace_s
        awaits_body = exchange.awaits_body and not self._is_read_paused
        verdict = self._slow_client_guard.check(
            self._transport, awaits_body=awaits_body, is_unread=self.is_write_paused
        )
        if verdict is Verdict.GONE:
            self._transport.abort()
        elif verdict is Verdict.SLOW:
            self._refuse(Refused(408, "The body of the request did not arrive in time."))
        elif exchange.watcher is not None:
            exchange.watcher.on_wait(self._slow_client_guard.waited_s)

    def _check_response_read(self) -> None:
        """Check that a slow client still reads a complete response; abort if it does not."""
        self.deadline = self.loop.time() + self.limits.pace_s
        if self._slow_client_guard.check(self._transport, awaits_body=False, is_unread=True) is Verdict.GONE:
            self._transport.abort()

    def _stop(self, status: int, why: str) -> Refused:
        self._refusal = Refused(status, why)
        return self._refusal

    def _refuse(self, refusal: Refused) -> None:
        """Answer exchanges that can still be answered, then send this refusal and stop reading."""
        if self._phase is Phase.CLOSING or self._phase is Phase.GONE:
            return
        if self._current is None:
            self._answer_refusal(refusal)
        elif self._latest is not self._current:
            self._refusal = refusal
            self._phase = Phase.CLOSING
            if self._queue and self._queue[-1] is self._latest:
                self._queue.pop()
        else:
            exchange, self._current = self._current, None
            exchange.mark_gone()
            if exchange.has_begun:
                self._transport.abort()
            else:
                self._answer_refusal(refusal)

    def _answer_refusal(self, refusal: Refused) -> None:
        self._transport.write(encode_refusal(refusal, self.date_header))
        self._linger()

    def _linger(self) -> None:
        """Half-close, and drop input for `linger_s`, so that the client reads the last response."""
        self._phase = Phase.CLOSING
        self.deadline = self.loop.time() + self.limits.linger_s
        self._resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def _upgrade(self, rest: bytes) -> None:
        exchange = self._latest
        if self._phase is not Phase.TUNNEL or exchange is None:
            if rest and self._phase in (Phase.IDLE, Phase.BODY):
                self.data_received(rest)  # the offer of another protocol is ignored
            return
        self._buffer_early(rest)
        if self._current is not None:
            self._refuse(Refused(400, "A websocket cannot begin behind another request."))
        elif self.pre_app_handler is not None and self.pre_app_handler.owns(exchange.scope):
            self._current = exchange
            make_websocket_scope(exchange)
            exchange.run(self._config.loaded_app)
        else:
            self._server.connections.discard(self)
            self.deadline = _NEVER
            inner = self._config.ws_protocol_class(
                config=self._config, server_state=self._server, app_state=self._app_state
            )
            hand_over(self, self._transport, inner, exchange.scope, self._early)

    def _buffer_early(self, data: bytes) -> None:
        """Buffer what a client sends before its handshake is answered, up to a limit."""
        self._early += data
        if len(self._early) > self.limits.taken_ahead_bytes:
            self._pause_reading()


def protocol_class(
    *,
    pre_app_handler: PreAppHandler | None = None,
    limits: Limits | None = None,
    proxies: TrustedProxies | None = None,
) -> type[HttpProtocol]:
    """Return a connection class with its own connection registry; one for each server."""
    limits = limits or Limits()
    shared = {
        "pre_app_handler": pre_app_handler,
        "limits": limits,
        "registry": ConnectionRegistry(limits),
        "proxies": proxies,
    }
    return type("BerthHttpProtocol", (HttpProtocol,), shared)
