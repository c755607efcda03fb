"""Each malformed request has its answer, reaches the app at most once, and costs no memory."""

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.ws.plain_app import GullibleApp, gullible_app, statuses
from tests.ws.proxy_process import proxy_process, rss_bytes

MIB = 2**20
PATIENCE_S = 30
GET = b"GET /a HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: a\r\n"
# What a smuggler hides in a body.
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
HANDSHAKE = GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
CLOSE = b"Connection: close\r\n\r\n"

# name: (bytes, statuses of the answers, how many requests reach the app; None: as much as was clear)
TABLE: dict[str, tuple[bytes, list[int], int | None]] = {
    "plain": (GET + CLOSE, [200], 1),
    "head": (b"HEAD /a HTTP/1.1\r\nHost: a\r\n" + CLOSE, [200], 1),
    "empty lines before": (b"\r\n\r\n" + GET + CLOSE, [200], 1),
    "two at once": (GET + b"\r\n" + GET + CLOSE, [200, 200], 2),
    "behind the last": (GET + CLOSE + HIDDEN, [200], 1),
    "behind a body": (POST + b"Content-Length: 2\r\n\r\nab" + GET + CLOSE, [200, 200], 2),
    "address of its own host": (b"GET http://a/a HTTP/1.1\r\nHost: a\r\n" + CLOSE, [200], 1),
    "address without a path": (b"GET http://own HTTP/1.1\r\nHost: own\r\n" + CLOSE, [200], None),
    "HTTP/1.0": (b"GET /a HTTP/1.0\r\nHost: a\r\n\r\n", [200], 1),
    "chunks": (CHUNKED + b"2\r\nab\r\n0\r\n\r\n" + GET + CLOSE, [200, 200], 2),
    "chunk with an extension": (CHUNKED + b"2;a=b\r\nab\r\n0\r\n\r\n" + GET + CLOSE, [200, 200], 2),
    "trailer": (CHUNKED + b"2\r\nab\r\n0\r\nX: y\r\n\r\n" + GET + CLOSE, [200, 200], 2),
    "expects to go on": (
        POST + b"Expect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab",
        [100, 200],
        1,
    ),
    "offers HTTP/2": (
        GET
        + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n"
        + GET
        + CLOSE,
        [200, 200],
        2,
    ),
    "length and chunks": (
        POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        [400],
        0,
    ),
    "chunks and length": (
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + HIDDEN,
        [400],
        0,
    ),
    "two lengths": (POST + b"Content-Length: 0\r\nContent-Length: 34\r\n\r\n" + HIDDEN, [400], 0),
    "one length twice": (POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nab", [400], 0),
    "list of lengths": (POST + b"Content-Length: 2, 2\r\n\r\nab", [400], 0),
    "length with a sign": (POST + b"Content-Length: +2\r\n\r\nab", [400], 0),
    "length below nothing": (POST + b"Content-Length: -1\r\n\r\n" + HIDDEN, [400], 0),
    "length in hex": (POST + b"Content-Length: 0x2\r\n\r\nab", [400], 0),
    "length in two words": (POST + b"Content-Length: 2 2\r\n\r\nab", [400], 0),
    "length beyond numbers": (POST + b"Content-Length: 99999999999999999999\r\n\r\nab", [400], 0),
    "empty length": (POST + b"Content-Length:\r\n\r\n" + HIDDEN, [400], 0),
    "other coding": (POST + b"Transfer-Encoding: gzip\r\n\r\n" + HIDDEN, [400], 0),
    "coding and chunks": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", [400], 0),
    "chunks twice": (POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", [400], 0),
    "chunks on two lines": (
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        [400],
        0,
    ),
    "chunks and nothing": (
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + HIDDEN,
        [400],
        0,
    ),
    "nearly chunks": (POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN, [400], 0),
    "chunks behind a control": (POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + HIDDEN, [400], 0),
    "chunks in quotes": (POST + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n' + HIDDEN, [400], 0),
    "chunks in HTTP/1.0": (
        b"POST /a HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        [400],
        0,
    ),
    "blank before a colon": (POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + HIDDEN, [400], 0),
    "folded header": (GET + b"X: a\r\n b\r\n\r\n", [400], 0),
    "folded coding": (POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + HIDDEN, [400], 0),
    "lines without CR": (b"GET /a HTTP/1.1\nHost: a\n\n", [400], 0),
    "one line without CR": (GET + b"X: a\nY: b\r\n\r\n", [400], 0),
    "CR inside a value": (GET + b"X: a\rY: b\r\n\r\n", [400], 0),
    "NUL in a value": (GET + b"X: a\0b\r\n\r\n", [400], 0),
    "NUL in a name": (GET + b"X\0: a\r\n\r\n", [400], 0),
    "control in a value": (GET + b"X: a\x01b\r\n\r\n", [400], 0),
    "no name": (GET + b": a\r\n\r\n", [400], 0),
    "no colon": (GET + b"Xa\r\n\r\n", [400], 0),
    "no host": (b"GET /a HTTP/1.1\r\n\r\n", [400], 0),
    "two hosts": (GET + b"Host: b\r\n\r\n", [400], 0),
    "host with a path": (b"GET /a HTTP/1.1\r\nHost: a/b\r\n\r\n", [400], 0),
    "host with a user": (b"GET /a HTTP/1.1\r\nHost: a@b\r\n\r\n", [400], 0),
    "list of hosts": (b"GET /a HTTP/1.1\r\nHost: a, b\r\n\r\n", [400], 0),
    "empty host": (b"GET /a HTTP/1.1\r\nHost:\r\nX: a\r\n\r\n", [400], 0),
    "address of another host": (b"GET http://b/a HTTP/1.1\r\nHost: a\r\n\r\n", [400], 0),
    "address with another scheme": (b"GET ftp://a/a HTTP/1.1\r\nHost: a\r\n\r\n", [400], 0),
    "connect": (b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", [405], 0),
    "trace": (b"TRACE /a HTTP/1.1\r\nHost: a\r\n\r\n", [405], 0),
    "star": (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", [400], 0),
    "no slash": (b"GET a HTTP/1.1\r\nHost: a\r\n\r\n", [400], 0),
    "letters beyond ASCII": ("GET /ä HTTP/1.1\r\nHost: a\r\n\r\n".encode(), [400], 0),
    "control in the address": (b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", [400], 0),
    "fragment": (b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", [400], 0),
    "small method": (b"get /a HTTP/1.1\r\nHost: a\r\n\r\n", [400], 0),
    "unknown method": (b"FETCH /a HTTP/1.1\r\nHost: a\r\n\r\n", [400], 0),
    "no version": (b"GET /a\r\n\r\n", [400], 0),
    "version 0.9": (b"GET /a HTTP/0.9\r\nHost: a\r\n\r\n", [400], 0),
    "version 1.2": (b"GET /a HTTP/1.2\r\nHost: a\r\n\r\n", [400], 0),
    "version 2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400], 0),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), [400], 0),
    "another protocol": (b"SSH-2.0-OpenSSH_9.2\r\n", [400], 0),
    "chunk size of letters": (CHUNKED + b"zz\r\nab\r\n0\r\n\r\n" + HIDDEN, [400], None),
    "chunk size with a sign": (CHUNKED + b"-2\r\nab\r\n0\r\n\r\n" + HIDDEN, [400], None),
    "chunk size with a prefix": (CHUNKED + b"0x2\r\nab\r\n0\r\n\r\n" + HIDDEN, [400], None),
    "chunk size beyond numbers": (CHUNKED + b"fffffffffffffffff\r\nab\r\n0\r\n\r\n" + HIDDEN, [400], None),
    "chunk longer than its size": (CHUNKED + b"2\r\nabc\r\n0\r\n\r\n" + HIDDEN, [400], None),
    "chunk lines without CR": (CHUNKED + b"2\nab\n0\n\n" + HIDDEN, [400], None),
    "chunk extension without CR": (CHUNKED + b"2;a\nb\r\nab\r\n0\r\n\r\n" + HIDDEN, [400], None),
    "expects something else": (POST + b"Expect: a miracle\r\nContent-Length: 2\r\n\r\nab", [417], 0),
    "websocket without a key": (HANDSHAKE + b"\r\n", [400], 0),
    "websocket with two keys": (HANDSHAKE + KEY + KEY + b"\r\n", [400], 0),
    "websocket of old": (HANDSHAKE.replace(b"13", b"8") + KEY + b"\r\n", [426], 0),
    "websocket by POST": (HANDSHAKE.replace(b"GET", b"POST") + KEY + b"\r\n", [400], 0),
    "websocket with a body": (HANDSHAKE + KEY + b"Content-Length: 2\r\n\r\nab", [400], 0),
    "websocket in HTTP/1.0": (HANDSHAKE.replace(b"HTTP/1.1", b"HTTP/1.0") + KEY + b"\r\n", [400], 0),
    "offers HTTP/2 with a body": (
        POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 34\r\n\r\n" + HIDDEN,
        [400],
        0,
    ),
    "too many headers": (GET + b"X: a\r\n" * 200 + b"\r\n", [431], 0),
    "too large a head": (GET + (b"X: " + b"a" * 20_000 + b"\r\n") * 4 + b"\r\n", [431], 0),
    "header of 10 MB": (GET + b"X: " + b"a" * 10 * MIB + b"\r\n\r\n", [431], 0),
    "name of 10 MB": (GET + b"a" * 10 * MIB + b": x\r\n\r\n", [431], 0),
    "cookie of 10 MB": (GET + b"Cookie: a=" + b"a" * 10 * MIB + b"\r\n\r\n", [431], 0),
    "address of 10 MB": (b"GET /" + b"a" * 10 * MIB + b" HTTP/1.1\r\nHost: a\r\n\r\n", [414], 0),
    "method of 10 MB": (b"A" * 10 * MIB + b" / HTTP/1.1\r\nHost: a\r\n\r\n", [400], 0),
    "empty lines without end": (b"\r\n" * 5 * MIB, [431], 0),
    "chunk extension without end": (CHUNKED + b"2;" + b"a" * 10 * MIB, [400], None),
    "trailer without end": (CHUNKED + b"2\r\nab\r\n0\r\nX: " + b"a" * 10 * MIB, [400], None),
    "trailers without end": (CHUNKED + b"2\r\nab\r\n0\r\n" + b"X: a\r\n" * MIB, [400], None),
}


@dataclass(frozen=True, slots=True)
class Stage:
    app: GullibleApp
    port: int
    pid: int


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with gullible_app() as app, proxy_process(app.port) as (port, pid):
        yield Stage(app, port, pid)


def said(port: int, request: bytes) -> bytes:
    """All that is answered until the server closes, which it does after an odd request."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(request)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while data := connection.recv(2**16):
                answer += data
        return answer


@pytest.mark.parametrize("name", TABLE)
def test_each_odd_request_has_its_answer(stage: Stage, name: str) -> None:
    request, expected, reached = TABLE[name]
    mine = b"/a%d" % list(TABLE).index(name)
    assert statuses(said(stage.port, request.replace(b"/a HTTP/", mine + b" HTTP/"))) == expected
    assert b"/hidden" not in stage.app.targets
    if reached is not None:
        assert stage.app.targets.count(mine) == reached


def test_no_odd_request_costs_memory(stage: Stage) -> None:
    requests = [request for request, _, _ in TABLE.values()]
    for request in requests:
        said(stage.port, request)
    before = rss_bytes(stage.pid)
    for request in requests * 2:
        said(stage.port, request)
    assert rss_bytes(stage.pid) - before < 20 * MIB


def test_more_than_a_few_requests_at_once_are_not_taken_in(stage: Stage) -> None:
    answers = statuses(said(stage.port, (GET + b"\r\n") * 1000))
    assert answers[-1] == 429
    assert 1 < len(answers) < 50
    assert set(answers[:-1]) == {200}
