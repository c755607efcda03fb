"""Headers that pass between a browser and an app."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.proxy.errors import RequestRefused
from transport.proxy.headers import (
    BodyFraming,
    HeaderRules,
    Headers,
    body_framing,
    encode_head,
    request_headers,
    response_headers,
    without_cookies,
)

NO_RULES = HeaderRules()
PRIVATE = frozenset((b"__Host-berth-app", b"berth_session"))


def upstream(headers: Headers, rules: HeaderRules = NO_RULES, framing: BodyFraming | None = None) -> Headers:
    return request_headers(
        headers, rules, client_ip="192.0.2.7", scheme="https", framing=framing or BodyFraming()
    )


def test_hop_by_hop_headers_and_those_named_in_connection_stay_here() -> None:
    headers = upstream(
        [
            (b"host", b"app.example"),
            (b"connection", b"keep-alive, X-Secret-Hop"),
            (b"keep-alive", b"timeout=5"),
            (b"x-secret-hop", b"1"),
            (b"te", b"trailers"),
            (b"upgrade", b"h2c"),
            (b"proxy-authorization", b"Basic eA=="),
            (b"accept", b"*/*"),
        ]
    )
    assert [name for name, _ in headers] == [
        b"host",
        b"accept",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-proto",
    ]


def test_connection_cannot_remove_host() -> None:
    assert (b"host", b"a") in upstream([(b"host", b"a"), (b"connection", b"host")])


def test_claims_of_the_client_are_replaced_by_our_own() -> None:
    headers = upstream(
        [
            (b"host", b"app.example:8080"),
            (b"x-forwarded-for", b"127.0.0.1"),
            (b"x-forwarded-host", b"evil.example"),
            (b"x-forwarded-prefix", b"/evil"),
            (b"forwarded", b"for=127.0.0.1"),
            (b"x-real-ip", b"127.0.0.1"),
            (b"expect", b"100-continue"),
        ]
    )
    assert headers == [
        (b"host", b"app.example:8080"),
        (b"x-forwarded-for", b"192.0.2.7"),
        (b"x-forwarded-host", b"app.example:8080"),
        (b"x-forwarded-proto", b"https"),
    ]


def test_private_cookies_do_not_go_upstream_and_others_do() -> None:
    value = b"a=1; __Host-berth-app=secret;berth_session=secret; b=2"
    assert without_cookies(value, PRIVATE) == b"a=1; b=2"
    assert (
        dict(upstream([(b"cookie", value)], HeaderRules(private_cookies=PRIVATE)))[b"cookie"] == b"a=1; b=2"
    )


def test_a_cookie_header_with_private_cookies_only_is_left_out() -> None:
    headers = upstream([(b"cookie", b"berth_session=x")], HeaderRules(private_cookies=PRIVATE))
    assert b"cookie" not in dict(headers)


def test_headers_that_the_rules_set_replace_those_of_the_client() -> None:
    rules = HeaderRules(set_request=((b"authorization", b"token app"),), drop_request=frozenset((b"x-a",)))
    headers = upstream([(b"authorization", b"Bearer mine"), (b"x-a", b"1")], rules)
    assert [value for name, value in headers if name == b"authorization"] == [b"token app"]
    assert b"x-a" not in dict(headers)


def test_body_framing_is_written_anew() -> None:
    sized = upstream([(b"content-length", b"5")], framing=BodyFraming(content_length=5))
    chunked = upstream([(b"transfer-encoding", b"chunked")], framing=BodyFraming(is_chunked=True))
    assert dict(sized)[b"content-length"] == b"5"
    assert dict(chunked)[b"transfer-encoding"] == b"chunked"


@pytest.mark.parametrize(
    "headers",
    [
        [(b"content-length", b"5"), (b"transfer-encoding", b"chunked")],
        [(b"content-length", b"5"), (b"content-length", b"5")],
        [(b"content-length", b"+5")],
        [(b"content-length", b"5, 5")],
        [(b"content-length", b"")],
        [(b"transfer-encoding", b"gzip, chunked")],
        [(b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"chunked")],
        [(b"transfer-encoding", b"xchunked")],
    ],
)
def test_a_body_that_can_be_read_in_two_ways_is_refused(headers: Headers) -> None:
    with pytest.raises(RequestRefused):
        body_framing(headers)


def test_body_framing_of_ordinary_requests() -> None:
    assert body_framing([]) == BodyFraming()
    assert not body_framing([(b"content-length", b"0")]).has_body
    assert body_framing([(b"content-length", b"12")]).content_length == 12
    assert body_framing([(b"transfer-encoding", b"Chunked")]).is_chunked


@pytest.mark.parametrize(
    ("sent", "passed"),
    [
        (b"a=1; Domain=apps.localhost; Path=/", b"a=1; Path=/"),
        (b"a=1; Path=/; domain=.apps.localhost", b"a=1; Path=/"),
        (b"a=1; DOMAIN = x ; Secure", b"a=1; Secure"),
        (b"a=1;Domain; Secure", b"a=1; Secure"),
        (b"a=1; Domain=a; Domain=b", b"a=1"),
        (b"domain=1; Path=/", b"domain=1; Path=/"),
        (b"a=x; DomainHint=1", b"a=x; DomainHint=1"),
    ],
)
def test_a_cookie_is_bound_to_the_apps_own_host(sent: bytes, passed: bytes) -> None:
    assert response_headers([(b"set-cookie", sent)], NO_RULES, has_body=True) == [(b"set-cookie", passed)]


def test_an_app_cannot_set_the_gateways_cookies() -> None:
    headers: Headers = [(b"set-cookie", b"__Host-berth-app=evil; Path=/"), (b"set-cookie", b"x=1")]
    passed = response_headers(headers, HeaderRules(private_cookies=PRIVATE), has_body=True)
    assert passed == [(b"set-cookie", b"x=1")]


def test_response_headers_of_this_hop_are_dropped_and_location_is_kept() -> None:
    headers: Headers = [
        (b"connection", b"close, x-foo"),
        (b"x-foo", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"date", b"x"),
        (b"server", b"x"),
        (b"location", b"/a%2Fb?c=%20"),
    ]
    assert response_headers(headers, NO_RULES, has_body=True) == [(b"location", b"/a%2Fb?c=%20")]


def test_a_length_without_body_is_dropped() -> None:
    assert response_headers([(b"content-length", b"9")], NO_RULES, has_body=False) == []


@given(st.lists(st.tuples(st.binary(max_size=8), st.binary(max_size=12)), max_size=6), st.binary(max_size=20))
def test_no_value_starts_a_line_of_its_own(headers: Headers, path: bytes) -> None:
    try:
        head = encode_head(b"GET " + path + b" HTTP/1.1", headers)
    except RequestRefused:
        return
    lines = head.split(b"\r\n")
    assert len(lines) == len(headers) + 3
    assert not any(b"\r" in line or b"\n" in line for line in lines)
