"""Strict parser of request heads (refuses ambiguous ones) and encoder of response heads. Pure."""

import json
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import NamedTuple

from transport.server import cookie_overflow_page
from transport.server.limits import Limits

Fields = list[tuple[bytes, bytes]]

_HOST = re.compile(rb"(?:[A-Za-z0-9._~%-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_TARGET = re.compile(rb"[!-~]+")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_LENGTH = re.compile(rb"[0-9]{1,18}")
_FIELD_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_WEBSOCKET_KEY = re.compile(rb"[A-Za-z0-9+/]{22}==")
_ASKED = frozenset((b"host", b"content-length", b"transfer-encoding", b"expect", b"connection", b"upgrade"))
# TRACE reveals HttpOnly cookies to a page; CONNECT is for forward proxies.
_NOT_HERE = frozenset((b"CONNECT", b"TRACE", b"PRI"))


class Refused(Exception):
    """The request is rejected; `status` and the text give the reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class RequestHead(NamedTuple):
    """Parsed target and framing of a head."""

    path: bytes
    query: bytes
    content_length: int | None
    is_chunked: bool
    expects_continue: bool
    is_websocket: bool

    @property
    def has_body(self) -> bool:
        return self.is_chunked or bool(self.content_length)


def read_head(method: bytes, target: bytes, version: str, fields: Fields) -> RequestHead:
    """Parse a head; names are in lower case. Raises Refused if it can be read in two ways."""
    if version not in ("1.1", "1.0"):
        raise Refused(400, "Only HTTP/1.1 is spoken here.")
    if method in _NOT_HERE:
        raise Refused(405, f"{method.decode()} is not answered here.")
    framing: dict[bytes, bytes] = {}
    for name, value in fields:
        if name in _ASKED:
            if name in framing and name != b"connection":
                raise Refused(400, f"{name.decode()} stands there twice.")
            framing[name] = framing[name] + b"," + value if name in framing else value.strip(b" \t")
    host = framing.get(b"host")
    if host is None and version == "1.1":
        raise Refused(400, "The request names no Host.")
    if host is not None and not _HOST.fullmatch(host):
        raise Refused(400, "Host is not the name of a host.")
    path, query = _split(target, host)
    length, is_chunked = _framing(framing, version)
    return RequestHead(
        path, query, length, is_chunked, _expects_continue(framing, version), _is_websocket(framing)
    )


def check_size(fields: Fields, limits: Limits, arrived_bytes: int) -> None:
    """Check the fields against the limits, in total and each. Raises Refused."""
    if arrived_bytes <= limits.field_bytes and len(fields) <= limits.fields:
        return  # common case: no need to count
    sizes = [len(name) + len(value) + 4 for name, value in fields]
    if sum(sizes) > limits.head_bytes or max(sizes) > limits.field_bytes or len(sizes) > limits.fields:
        raise Refused(431, "The head of the request is too large.")


def check_websocket(method: bytes, version: str, head: RequestHead, fields: Fields) -> None:
    """Check the request against RFC 6455, 4.2.1. Raises Refused if it is no valid handshake."""
    if method != b"GET" or version != "1.1" or head.has_body:
        raise Refused(400, "A websocket begins with a GET of HTTP/1.1 without a body.")
    keys = [value for name, value in fields if name == b"sec-websocket-key"]
    versions = [value for name, value in fields if name == b"sec-websocket-version"]
    if len(keys) != 1 or not _WEBSOCKET_KEY.fullmatch(keys[0].strip(b" \t")):
        raise Refused(400, "Sec-WebSocket-Key is missing or is no key.")
    if [value.strip(b" \t") for value in versions] != [b"13"]:
        raise Refused(426, "Only version 13 of the websocket protocol is spoken here.")


def encode_answer(status: int, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a response head. Raises ValueError for a name or value that could inject a line."""
    parts = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status]
    for name, value in fields:
        parts += (b"\r\n", name, b": ", value)
        if name not in _KNOWN_NAMES and not _FIELD_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a header.")
    parts.append(b"\r\n\r\n")
    head = b"".join(parts)
    lines = len(parts) // 4 + 2
    if head.count(b"\n") != lines or head.count(b"\r") != lines or b"\0" in head:
        raise ValueError("The value of a header contains a line break.")
    return head


def encode_refusal(refusal: Refused, date: tuple[bytes, bytes]) -> bytes:
    """Return the complete response to a refused request, in the format of API errors; a browser
    with too many cookies gets the cookie overflow page.
    """
    if refusal.status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
        length = (b"content-length", b"%d" % len(cookie_overflow_page.BODY))
        return (
            encode_answer(431, (date, *cookie_overflow_page.HEADERS, length, (b"connection", b"close")))
            + cookie_overflow_page.BODY
        )
    code = "too_large" if refusal.status == HTTPStatus.REQUEST_URI_TOO_LONG else "bad_request"
    body = json.dumps({"code": code, "message": str(refusal), "hint": "", "fields": {}}).encode()
    headers = (
        date,
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    )
    return encode_answer(refusal.status, headers) + body


def _split(target: bytes, host: bytes | None) -> tuple[bytes, bytes]:
    if target[:1] != b"/":
        absolute = _ABSOLUTE.fullmatch(target)
        if absolute is None:
            raise Refused(400, "The target of the request is neither a path nor an address.")
        if host is None or absolute[1].lower() != host.lower():
            raise Refused(400, "The target of the request names another host than Host does.")
        target = absolute[2] if absolute[2][:1] == b"/" else b"/" + absolute[2]
    if not _TARGET.fullmatch(target) or b"#" in target:
        raise Refused(400, "The target of the request contains what belongs in no address.")
    path, _, query = target.partition(b"?")
    return path, query


def _framing(framing: dict[bytes, bytes], version: str) -> tuple[int | None, bool]:
    length, coding = framing.get(b"content-length"), framing.get(b"transfer-encoding")
    if coding is not None:
        if length is not None or coding.lower() != b"chunked" or version == "1.0":
            raise Refused(400, "Transfer-Encoding is other than chunked, or stands beside Content-Length.")
        return None, True
    if length is None:
        return None, False
    if not _LENGTH.fullmatch(length):
        raise Refused(400, "Content-Length is not a number.")
    return int(length), False


def _expects_continue(framing: dict[bytes, bytes], version: str) -> bool:
    expected = framing.get(b"expect")
    if expected is None or version == "1.0":
        return False
    if expected.lower() != b"100-continue":
        raise Refused(417, "Expect may only say 100-continue.")
    return True


def _is_websocket(framing: dict[bytes, bytes]) -> bool:
    upgrade = framing.get(b"upgrade")
    if upgrade is None or upgrade.lower() != b"websocket":
        return False
    options = framing.get(b"connection", b"").lower().split(b",")
    return b"upgrade" in [option.strip() for option in options]


_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}".encode() for status in HTTPStatus}
_KNOWN_NAMES = frozenset(
    (
        b"date",
        b"content-type",
        b"content-length",
        b"transfer-encoding",
        b"connection",
        b"cache-control",
        b"etag",
        b"last-modified",
        b"set-cookie",
        b"vary",
        b"content-security-policy",
        b"cross-origin-resource-policy",
    )
)
