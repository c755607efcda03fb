"""Forwards one HTTP request from an ASGI server to an app and streams the response back."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial

from transport.proxy.connection import Connection, ResponseHead
from transport.proxy.errors import UpstreamBroken, UpstreamError, UpstreamTimeout
from transport.proxy.headers import BodyFraming, HeaderRules, body_framing, request_head, response_headers
from transport.proxy.pool import Transport
from transport.proxy.target import Target
from transport.server.asgi import Receive, Scope, Send
from transport.server.exchange import Exchange
from transport.server.types import Watcher

logger = logging.getLogger(__name__)

# Idempotent methods: a request without a body may be sent twice (RFC 9110, 9.2.2).
_REPLAYABLE = frozenset(("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"))
_LARGEST_STATUS = 599


async def forward_http(
    scope: Scope, receive: Receive, send: Send, *, transport: Transport, target: Target, rules: HeaderRules
) -> None:
    """Forward one request to the target and its response back, buffering about 100 KB of either
    body.

    Raises RequestRefused or UpstreamError while the client has received nothing. Later errors cut
    the response short, which the client detects. The upstream request ends when the client leaves.
    """
    framing = body_framing(scope["headers"])
    head = request_head(scope, rules, framing)
    connection, response, sender = await _send_request(scope, receive, transport, target, framing, head)
    is_whole = False
    try:
        is_whole = await _stream_response(scope, send, connection, response, rules)
    finally:
        sender.stop()
        if is_whole and sender.is_body_sent:
            transport.pool.release(connection)
        else:
            connection.abort()


async def _send_request(
    scope: Scope, receive: Receive, transport: Transport, target: Target, framing: BodyFraming, head: bytes
) -> "tuple[Connection, ResponseHead, _RequestSender]":
    """Send the request and wait for the response's head. A pooled connection may have died
    unnoticed: a repeatable request is then sent once more on a new connection. Other requests use a
    new connection from the start.
    """
    method = scope["method"]
    exchange: Exchange = scope["extensions"]["berth.exchange"]
    is_replayable = method in _REPLAYABLE and not framing.has_body
    connection = await transport.pool.connect(target, is_new=not is_replayable)
    while True:
        sender = _RequestSender(exchange, receive, connection, framing)
        try:
            connection.start(method, head)
            sender.start()
            async with asyncio.timeout(transport.timeouts.response_head_s) as limit:
                sender.on_progress = partial(_restart_limit, limit, transport.timeouts.response_head_s)
                response = await connection.response()
            sender.on_progress = None
            if not 200 <= response.status <= _LARGEST_STATUS:
                raise UpstreamBroken(f"The app answered with status {response.status}.")
            return connection, response, sender
        except TimeoutError as exc:
            _abandon(sender, connection)
            raise UpstreamTimeout("The app did not answer in time.") from exc
        except UpstreamError:
            _abandon(sender, connection)
            if not (connection.is_reused and is_replayable) or connection.has_received or exchange.is_gone:
                if not exchange.is_gone:
                    await transport.pool.require_listener(connection)
                raise
            connection = await transport.pool.connect(target, is_new=True)
        except BaseException:
            _abandon(sender, connection)
            raise


async def _stream_response(
    scope: Scope, send: Send, connection: Connection, response: ResponseHead, rules: HeaderRules
) -> bool:
    """Stream the response to the client. Return True if it was complete."""
    has_body = scope["method"] == "HEAD" or response.status not in (204, 304)
    headers = response_headers(response.headers, rules, has_body=has_body)
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    is_last = False
    while not is_last:
        try:
            chunk = await connection.next_chunk()
        except UpstreamError as exc:
            # Too late for an error page: an unfinished response is what the client can detect.
            logger.info("response cut short: %s", exc)
            return False
        is_last = not chunk or connection.is_drained
        await send({"type": "http.response.body", "body": chunk, "more_body": not is_last})
    return True


def _restart_limit(limit: asyncio.Timeout, seconds: float) -> None:
    """Begin a time limit anew: an app may read a long body before it answers."""
    if not limit.expired():
        limit.reschedule(asyncio.get_running_loop().time() + seconds)


def _abandon(sender: "_RequestSender", connection: Connection) -> None:
    sender.stop()
    connection.abort()


class _RequestSender(Watcher):
    """Client side of one exchange: sends the client's body upstream, and ends the upstream request
    when the client leaves.
    """

    def __init__(
        self, exchange: Exchange, receive: Receive, connection: Connection, framing: BodyFraming
    ) -> None:
        self.is_body_sent = not framing.has_body
        self.on_progress: Callable[[], None] | None = None  # called when the app has taken a part of the body
        self._exchange = exchange
        self._receive = receive
        self._connection = connection
        self._framing = framing
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._exchange.watcher = self
        if self._exchange.is_gone:
            self.on_gone()
        elif self._framing.has_body:
            self._task = asyncio.get_running_loop().create_task(self._send_body())

    def stop(self) -> None:
        self._exchange.watcher = None
        if self._task is not None:
            self._task.cancel()

    # Watcher of the exchange

    def on_gone(self) -> None:
        self._connection.abort()

    async def _send_body(self) -> None:
        # The reader of the response gets the same error and reports it.
        with contextlib.suppress(UpstreamError):
            while not self.is_body_sent:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    return
                await self._send_piece(message.get("body", b""), is_last=not message.get("more_body", False))

    async def _send_piece(self, body: bytes, *, is_last: bool) -> None:
        if self._framing.is_chunked:
            if body:
                body = b"%x\r\n%b\r\n" % (len(body), body)
            if is_last:
                body += b"0\r\n\r\n"
        if body:
            await self._connection.write(body)
            if self.on_progress is not None:
                self.on_progress()
        self.is_body_sent = is_last
