"""Heads of a websocket handshake (RFC 6455, 4), as a proxy forwards them. Pure."""

import base64
import hashlib

from transport.proxy.errors import UpstreamBroken
from transport.proxy.headers import (
    BodyFraming,
    HeaderRules,
    Headers,
    encode_head,
    request_headers,
    response_headers,
)
from transport.server.asgi import Scope

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_OURS = b"sec-websocket-"


def handshake_head(scope: Scope, rules: HeaderRules) -> bytes:
    """Return the handshake for the app: the client's own key and sub-protocols, but no extension,
    so that frame boundaries stay visible. Raises RequestRefused.
    """
    scheme = "https" if scope["scheme"] == "wss" else "http"
    client_ip = scope["client"][0] if scope.get("client") else ""
    headers = request_headers(
        scope["headers"], rules, client_ip=client_ip, scheme=scheme, framing=BodyFraming()
    )
    headers += [
        (b"connection", b"Upgrade"),
        (b"upgrade", b"websocket"),
        (b"sec-websocket-version", b"13"),
        (b"sec-websocket-key", _key(scope)),
    ]
    if scope["subprotocols"]:
        headers.append((b"sec-websocket-protocol", ", ".join(scope["subprotocols"]).encode("latin-1")))
    path = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    return encode_head(b"GET " + path + b" HTTP/1.1", headers)


def accepted_headers(scope: Scope, headers: Headers, rules: HeaderRules) -> Headers:
    """Return the response headers for the client. Raises UpstreamBroken if the app accepts nothing,
    or something that was not offered.
    """
    received = {name: value.strip() for name, value in headers}
    accept = base64.b64encode(hashlib.sha1(_key(scope) + _GUID, usedforsecurity=False).digest())
    chosen = received.get(b"sec-websocket-protocol")
    if (
        received.get(b"sec-websocket-accept") != accept
        or received.get(b"upgrade", b"").lower() != b"websocket"
    ):
        raise UpstreamBroken("The app does not speak websocket here.")
    if b"sec-websocket-extensions" in received or (
        chosen and chosen.decode("latin-1") not in scope["subprotocols"]
    ):
        raise UpstreamBroken("The app accepted what was not offered.")
    kept = response_headers(headers, rules, has_body=False)
    sent = [(name, value) for name, value in kept if not name.startswith(_OURS)]
    sent += [(b"connection", b"Upgrade"), (b"upgrade", b"websocket"), (b"sec-websocket-accept", accept)]
    if chosen:
        sent.append((b"sec-websocket-protocol", chosen))
    return sent


def _key(scope: Scope) -> bytes:
    keys: list[bytes] = [value.strip() for name, value in scope["headers"] if name == b"sec-websocket-key"]
    return keys[0]
