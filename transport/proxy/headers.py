"""Header rules between browser and app: which headers pass, are dropped or are added. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from transport.proxy.errors import RequestRefused
from transport.server.asgi import Scope

Headers = list[tuple[bytes, bytes]]

HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
# A client can forge its own origin, so these are dropped and set anew.
_CLIENT_CLAIMS = frozenset((b"forwarded", b"x-real-ip", b"expect"))
_SERVERS_OWN = frozenset((b"date", b"server", b"alt-svc"))
_HANDSHAKE = b"sec-websocket-"
_DIGITS = re.compile(rb"[0-9]{1,18}")
_FIELD_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DOMAIN = re.compile(rb";[ \t]*domain[ \t]*(=[^;]*)?(?=;|$)", re.IGNORECASE)


class CookiePolicy(Protocol):
    """Rules for the cookies that pass a gateway, and for their names."""

    def to_app(self, cookie: bytes) -> bytes:
        """Return the Cookie header's value for the app; b"" for none."""

    def from_app(self, set_cookie: bytes) -> tuple[bytes, ...]:
        """Return the Set-Cookie values for the browser; often just the app's own."""


@dataclass(frozen=True, slots=True)
class HeaderRules:
    """Headers that one gateway adds, replaces or drops; names in lower case.
    `set_*` replaces headers of the app or client, `add_*` keeps them.
    `cookies` takes precedence over `private_cookies`.
    """

    private_cookies: frozenset[bytes] = frozenset()
    cookies: CookiePolicy | None = None
    drop_response: frozenset[bytes] = frozenset()
    drop_request: frozenset[bytes] = frozenset()
    set_request: tuple[tuple[bytes, bytes], ...] = ()
    set_response: tuple[tuple[bytes, bytes], ...] = ()
    add_response: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class BodyFraming:
    """Delimitation of a request's body: by length, by chunks, or no body."""

    content_length: int | None = None
    is_chunked: bool = False

    @property
    def has_body(self) -> bool:
        return self.is_chunked or bool(self.content_length)


NO_BODY = BodyFraming()


def body_framing(headers: Iterable[tuple[bytes, bytes]]) -> BodyFraming:
    """Return the framing of the body. Raises RequestRefused if it is ambiguous."""
    lengths = [value for name, value in headers if name == b"content-length"]
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if codings:
        if lengths or codings != [b"chunked"]:
            raise RequestRefused("Transfer-Encoding beside Content-Length, or other than chunked.")
        return BodyFraming(is_chunked=True)
    if not lengths:
        return BodyFraming()
    if len(lengths) > 1 or not _DIGITS.fullmatch(lengths[0]):
        raise RequestRefused("Content-Length is repeated or is not a number.")
    return BodyFraming(content_length=int(lengths[0]))


def request_headers(
    headers: Headers, rules: HeaderRules, *, client_ip: str, scheme: str, framing: BodyFraming
) -> Headers:
    """Return the headers for the app: end-to-end headers of the client, X-Forwarded-* set by us,
    and the additions of the rules. Host stays the client's, so that an app's own Origin check
    compares equal values.
    """
    dropped = _connection_options(headers) | rules.drop_request | {name for name, _ in rules.set_request}
    kept: Headers = []
    host = b""
    for name, value in headers:
        if name in HOP_BY_HOP or name in _CLIENT_CLAIMS or name in dropped or name == b"content-length":
            continue
        if name.startswith((b"x-forwarded-", _HANDSHAKE)):
            continue
        if name == b"cookie":
            value = (
                rules.cookies.to_app(value)
                if rules.cookies
                else without_cookies(value, rules.private_cookies)
            )
            if not value:
                continue
        if name == b"host":
            host = value
        kept.append((name, value))
    kept += [
        (b"x-forwarded-for", client_ip.encode("ascii", "ignore")),
        (b"x-forwarded-host", host),
        (b"x-forwarded-proto", scheme.encode("ascii", "ignore")),
        *rules.set_request,
    ]
    if framing.is_chunked:
        kept.append((b"transfer-encoding", b"chunked"))
    elif framing.content_length is not None:
        kept.append((b"content-length", b"%d" % framing.content_length))
    return kept


def request_head(scope: Scope, rules: HeaderRules, framing: BodyFraming = NO_BODY) -> bytes:
    """Return a complete request head for the app. Raises RequestRefused."""
    path = scope["raw_path"] or b"/"
    if scope["query_string"]:
        path += b"?" + scope["query_string"]
    client_ip = scope["client"][0] if scope.get("client") else ""
    scheme = scope["scheme"]
    headers = request_headers(scope["headers"], rules, client_ip=client_ip, scheme=scheme, framing=framing)
    return encode_head(scope["method"].encode("ascii") + b" " + path + b" HTTP/1.1", headers)


def response_headers(headers: Headers, rules: HeaderRules, *, has_body: bool) -> Headers:
    """Return the headers for the browser. Cookies are bound to the app's own host: Domain is
    removed, and the gateway's own cookie names are dropped. Content-Length is dropped for a
    response without a body, as the server would wait for those bytes.
    """
    dropped = _connection_options(headers) | rules.drop_response | {name for name, _ in rules.set_response}
    kept: Headers = []
    for name, value in headers:
        if name in HOP_BY_HOP or name in _SERVERS_OWN or name in dropped:
            continue
        if name == b"content-length" and not has_body:
            continue
        if name == b"set-cookie":
            kept += [(name, cookie) for cookie in _cookies_for_browser(value, rules)]
            continue
        kept.append((name, value))
    kept += rules.set_response
    kept += rules.add_response
    return kept


def without_cookies(value: bytes, names: frozenset[bytes]) -> bytes:
    """Return a Cookie header's value without the cookies of these names; b"" if none is left."""
    if not names:
        return value
    pairs = (pair.strip() for pair in value.split(b";"))
    return b"; ".join(pair for pair in pairs if pair and pair.partition(b"=")[0].strip() not in names)


def _cookies_for_browser(set_cookie: bytes, rules: HeaderRules) -> tuple[bytes, ...]:
    own_host_only = _DOMAIN.sub(b"", set_cookie)
    if rules.cookies:
        return rules.cookies.from_app(own_host_only)
    is_private = set_cookie.partition(b"=")[0].strip() in rules.private_cookies
    return () if is_private else (own_host_only,)


def encode_head(first_line: bytes, headers: Headers) -> bytes:
    """Return a message head. Raises RequestRefused for a value that could inject a line."""
    parts = [first_line]
    for name, value in headers:
        if not _FIELD_NAME.fullmatch(name):
            raise RequestRefused("A header's name is not a token.")
        parts.append(name + b": " + value)
    head = b"\r\n".join(parts) + b"\r\n\r\n"
    if head.count(b"\n") != len(parts) + 1 or head.count(b"\r") != len(parts) + 1 or b"\0" in head:
        raise RequestRefused("A header's value or the address contains a line break.")
    return head


def _connection_options(headers: Headers) -> set[bytes]:
    """Return the names that the Connection header declares hop-by-hop (RFC 9110, 7.6.1)."""
    return {
        option.strip().lower()
        for name, value in headers
        if name == b"connection"
        for option in value.split(b",")
        if option.strip().lower() not in (b"host", b"cookie", b"")
    }
