"""Forwards one websocket between client and app. After the handshake, bytes pass unchanged."""

import asyncio

from transport.proxy.connection import Connection, ResponseHead
from transport.proxy.errors import UpstreamBroken, UpstreamError, UpstreamTimeout
from transport.proxy.headers import HeaderRules
from transport.proxy.pool import Transport
from transport.proxy.target import Target
from transport.proxy.websocket_frames import GOING_AWAY, OnMessage
from transport.proxy.websocket_handshake import accepted_headers, handshake_head
from transport.proxy.websocket_splice import Splice
from transport.server.asgi import Receive, Scope, Send
from transport.server.exchange import Exchange
from transport.server.head_parser import encode_answer
from transport.server.types import Watcher

SWITCHING_PROTOCOLS = 101


class HandshakeRejected(UpstreamError):
    """The app rejected the handshake; `status` is its HTTP status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"The app refused the websocket with status {status}.")
        self.status = status


async def forward_websocket(  # noqa: PLR0913 -- all by name
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    transport: Transport,
    target: Target,
    rules: HeaderRules,
    close_reason: tuple[int, str] = (GOING_AWAY, ""),
    on_message: OnMessage | None = None,
) -> None:
    """Forward one websocket until both sides are closed; each side gets the other's close code and
    reason.

    Needs a server that hands over its connection (`berth.exchange`). Raises RequestRefused or
    UpstreamError while the client's handshake is still open. A side that does not read pauses the
    other: nothing is queued beyond the socket buffers. On cancellation the client gets the code and
    reason of `close_reason`, and the app sees the client leave. `on_message` is called with the size of
    each client message, or of its first fragment.
    """
    exchange: Exchange = scope["extensions"]["berth.exchange"]
    head = handshake_head(scope, rules)
    connection = await transport.pool.connect(target, is_new=True)
    try:
        response = await _shake_hands(exchange, connection, head, transport.timeouts.response_head_s)
        headers = accepted_headers(scope, response.headers, rules)
    except BaseException as exc:
        connection.abort()
        if isinstance(exc, UpstreamBroken) and not exchange.is_gone:
            await transport.pool.require_listener(connection)
        raise
    if exchange.is_gone:
        connection.abort()
        return
    splice = Splice(on_message=on_message)
    connection.hand_over(
        splice.app, lambda: _open(exchange, splice, encode_answer(SWITCHING_PROTOCOLS, headers))
    )
    try:
        await asyncio.shield(splice.finished)
    except BaseException:
        splice.close(*close_reason)
        raise


def _open(exchange: Exchange, splice: Splice, head: bytes) -> None:
    exchange.open_tunnel(head, splice, splice.client)


async def reject_websocket(scope: Scope, receive: Receive, send: Send, *, status: int, text: str) -> None:
    """Answer the handshake with an HTTP error."""
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": GOING_AWAY})
        return
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


async def _shake_hands(
    exchange: Exchange, connection: Connection, head: bytes, limit_s: float
) -> ResponseHead:
    """Return the app's response if it accepts the handshake. Raises UpstreamError."""
    exchange.watcher = _HandshakeWatcher(connection)
    try:
        connection.start("GET", head, wants_upgrade=True)
        async with asyncio.timeout(limit_s):
            response = await connection.response()
    except TimeoutError as exc:
        raise UpstreamTimeout("The app did not answer in time.") from exc
    finally:
        exchange.watcher = None
    if response.status != SWITCHING_PROTOCOLS:
        raise HandshakeRejected(response.status)
    return response


class _HandshakeWatcher(Watcher):
    """Watcher that aborts the request to the app if the client leaves during its handshake."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def on_gone(self) -> None:
        self._connection.fault = UpstreamBroken("The client has left.")
        self._connection.abort()
