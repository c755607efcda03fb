"""Switches a connection from HTTP to a websocket."""

import asyncio
from typing import Any

from transport.server.asgi import Scope
from transport.server.exchange import Exchange


class UpgradedProtocol(asyncio.Protocol):
    """Protocol of an upgraded connection: delegates to `inner`, keeps `outer` registered."""

    def __init__(self, outer: asyncio.Protocol, inner: asyncio.Protocol) -> None:
        self._outer = outer
        self._inner = inner
        self.data_received = inner.data_received  # type: ignore[method-assign]
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._outer.connection_lost(exc)
        self._inner.connection_lost(exc)


def make_websocket_scope(exchange: Exchange) -> None:
    """Turn the exchange's scope into that of a websocket that the application takes over."""
    scope = exchange.scope
    offers = [
        value.decode("latin-1") for name, value in scope["headers"] if name == b"sec-websocket-protocol"
    ]
    scope["type"] = "websocket"
    scope["scheme"] = "wss" if scope["scheme"] == "https" else "ws"
    scope["subprotocols"] = [offer.strip() for offer in ",".join(offers).split(",") if offer.strip()]
    scope["extensions"] = {"websocket.http.response": {}}
    exchange.keep_alive = False


def handshake_bytes(scope: Scope) -> bytes:
    """Return the handshake request, encoded again from the scope."""
    query = b"?" + scope["query_string"] if scope["query_string"] else b""
    lines = [b"GET ", scope["raw_path"], query, b" HTTP/1.1\r\n"]
    for name, value in scope["headers"]:
        lines += (name, b": ", value, b"\r\n")
    return b"".join((*lines, b"\r\n"))


def hand_over(
    outer: asyncio.Protocol, transport: asyncio.Transport, inner: Any, scope: Scope, early: bytes
) -> None:
    """Pass a websocket of the portal to the websocket library, which parses the handshake."""
    transport.set_protocol(UpgradedProtocol(outer, inner))
    inner.connection_made(transport)
    inner.scheme = "wss" if scope["scheme"] == "https" else "ws"
    inner.client = scope["client"]
    inner.data_received(handshake_bytes(scope) + early)
