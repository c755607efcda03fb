"""Heads of requests and answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.server.forwarded import TrustedProxies
from transport.server.head_parser import (
    Fields,
    Refused,
    check_websocket,
    encode_answer,
    encode_refusal,
    read_head,
)

HOST = [(b"host", b"a.example:8080")]
PEER = ("10.0.0.9", 4000)


def reading(target: bytes = b"/", fields: Fields | None = None, version: str = "1.1"):  # type: ignore[no-untyped-def]
    return read_head(b"GET", target, version, [*HOST, *(fields or [])])


def test_path_and_query_are_split_once() -> None:
    assert reading(b"/a%20b?c?d")[:2] == (b"/a%20b", b"c?d")


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"http://a.example:8080/x?y", b"/x", b"y"),
        (b"HTTP://A.example:8080", b"/", b""),
        (b"https://a.example:8080?y", b"/", b"y"),
    ],
)
def test_an_address_of_the_same_host_is_its_path(target: bytes, path: bytes, query: bytes) -> None:
    assert reading(target)[:2] == (path, query)


def test_a_request_of_http_1_0_may_lack_a_host() -> None:
    assert read_head(b"GET", b"/", "1.0", []).path == b"/"


def test_expect_means_nothing_in_http_1_0() -> None:
    assert not reading(fields=[(b"expect", b"x")], version="1.0").expects_continue


@pytest.mark.parametrize("host", [b"a", b"a:80", b"[::1]:80", b"10.0.0.1", b"a_b.example", b" a "])
def test_hosts_have_names_numbers_and_ports(host: bytes) -> None:
    assert read_head(b"GET", b"/", "1.1", [(b"host", host)]).path == b"/"


REFUSED: list[tuple[int, bytes, bytes, str, Fields]] = [
    (400, b"GET", b"/", "2.0", HOST),
    (405, b"TRACE", b"/", "1.1", HOST),
    (400, b"GET", b"/", "1.1", [*HOST, *HOST]),
    (400, b"GET", b"/", "1.1", []),
    (400, b"GET", b"/", "1.1", [(b"host", b"a/b")]),
    (400, b"GET", b"*", "1.1", HOST),
    (400, b"GET", b"http://b/", "1.1", HOST),
    (400, b"GET", b"/#", "1.1", HOST),
    (400, b"GET", b"/", "1.1", [*HOST, (b"transfer-encoding", b"gzip")]),
    (400, b"GET", b"/", "1.0", [*HOST, (b"transfer-encoding", b"chunked")]),
    (400, b"GET", b"/", "1.1", [*HOST, (b"content-length", b"1"), (b"transfer-encoding", b"chunked")]),
    (400, b"GET", b"/", "1.1", [*HOST, (b"content-length", b"1e9")]),
    (417, b"GET", b"/", "1.1", [*HOST, (b"expect", b"x")]),
]


@pytest.mark.parametrize(("status", "method", "target", "version", "fields"), REFUSED)
def test_what_could_be_read_in_two_ways_is_refused(
    status: int, method: bytes, target: bytes, version: str, fields: Fields
) -> None:
    with pytest.raises(Refused) as refusal:
        read_head(method, target, version, fields)
    assert refusal.value.status == status


def test_bodies_have_a_length_or_chunks() -> None:
    assert reading(fields=[(b"content-length", b" 12 ")]).content_length == 12
    assert reading(fields=[(b"transfer-encoding", b"Chunked")]).has_body
    assert not reading(fields=[(b"content-length", b"0")]).has_body
    assert reading(fields=[(b"expect", b"100-Continue")]).expects_continue


UPGRADE = [(b"connection", b"keep-alive"), (b"connection", b"Upgrade"), (b"upgrade", b"WebSocket")]
KEY = (b"sec-websocket-key", b"dGhlIHNhbXBsZSBub25jZQ==")
OURS = (b"sec-websocket-version", b"13")


def test_a_websocket_is_one_that_says_so_twice() -> None:
    assert reading(fields=UPGRADE).is_websocket
    assert not reading(fields=UPGRADE[2:]).is_websocket
    assert not reading(fields=[*UPGRADE[:2], (b"upgrade", b"h2c")]).is_websocket


@pytest.mark.parametrize(
    ("status", "method", "version", "fields"),
    [
        (0, b"GET", "1.1", [KEY, OURS]),
        (400, b"POST", "1.1", [KEY, OURS]),
        (400, b"GET", "1.0", [KEY, OURS]),
        (400, b"GET", "1.1", [OURS]),
        (400, b"GET", "1.1", [KEY, KEY, OURS]),
        (400, b"GET", "1.1", [(b"sec-websocket-key", b"short"), OURS]),
        (426, b"GET", "1.1", [KEY]),
        (426, b"GET", "1.1", [KEY, (b"sec-websocket-version", b"8")]),
    ],
)
def test_a_handshake_is_whole_or_refused(status: int, method: bytes, version: str, fields: Fields) -> None:
    found = read_head(method, b"/", version, [*HOST, *UPGRADE, *fields])
    try:
        check_websocket(method, version, found, fields)
    except Refused as refusal:
        said = refusal.status
    else:
        said = 0
    assert said == status


@given(
    st.binary(max_size=30),
    st.lists(
        st.tuples(
            st.sampled_from(
                [b"content-length", b"transfer-encoding", b"expect", b"upgrade", b"connection", b"host"]
            ),
            st.binary(max_size=12),
        ),
        max_size=4,
    ),
)
def test_every_head_is_read_or_refused(target: bytes, fields: Fields) -> None:
    try:
        found = read_head(b"POST", target, "1.1", fields)
    except Refused:
        return
    assert found.path.startswith(b"/")
    assert not (found.is_chunked and found.content_length is not None)


@given(st.lists(st.tuples(st.binary(max_size=8), st.binary(max_size=12)), max_size=5), st.integers(100, 599))
def test_no_value_of_an_answer_starts_a_line_of_its_own(fields: Fields, status: int) -> None:
    try:
        head = encode_answer(status, fields)
    except ValueError:
        return
    lines = head.split(b"\r\n")
    assert len(lines) == len(fields) + 3
    assert not any(b"\r" in line or b"\n" in line for line in lines)


@pytest.mark.parametrize("field", [(b"date", b"a\r\nb: c"), (b"a b", b"c"), (b"date", b"\0")])
def test_fields_that_cannot_be_sent_are_not(field: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError):
        encode_answer(200, [field])


@pytest.mark.parametrize(("status", "code"), [(414, b"too_large"), (400, b"bad_request")])
def test_a_refusal_has_the_shape_of_the_apis_errors(status: int, code: bytes) -> None:
    answer = encode_refusal(Refused(status, "No."), (b"date", b"x"))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.endswith(b'{"code": "%b", "message": "No.", "hint": "", "fields": {}}' % code)


def test_too_large_a_head_is_answered_by_a_page() -> None:
    answer = encode_refusal(Refused(431, "No."), (b"date", b"x"))
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"content-type: text/html" in answer


@pytest.mark.parametrize(
    ("trusted", "said", "client"),
    [
        (["10.0.0.0/24"], b"1.2.3.4", "1.2.3.4"),
        (["10.0.0.0/24"], b"6.6.6.6, 1.2.3.4, 10.0.0.3", "1.2.3.4"),
        (["10.0.0.9"], b"6.6.6.6, 10.0.0.3", "10.0.0.3"),
        (["10.0.0.0/24"], b"10.0.0.3", "10.0.0.3"),
        (["*"], b"6.6.6.6, 1.2.3.4", "6.6.6.6"),
        (["192.168.0.1"], b"1.2.3.4", "10.0.0.9"),
        (["10.0.0.9", ""], b"", "10.0.0.9"),
        (["10.0.0.9"], b"nonsense", "nonsense"),
    ],
)
def test_the_last_stranger_before_our_proxies_is_the_client(
    trusted: list[str], said: bytes, client: str
) -> None:
    assert TrustedProxies(trusted).origin(PEER, [(b"x-forwarded-for", said)])[1][0] == client


@pytest.mark.parametrize(
    ("said", "scheme"), [(b"https", "https"), (b"wss", "https"), (b"gopher", "http"), (b"", "http")]
)
def test_the_scheme_is_the_proxys_word(said: bytes, scheme: str) -> None:
    assert TrustedProxies(["*"]).origin(PEER, [(b"x-forwarded-proto", said)])[0] == scheme
    assert TrustedProxies(["1.1.1.1"]).origin(PEER, [(b"x-forwarded-proto", said)])[0] == "http"
