"""Cookies that pass between browsers and apps, by host and by port."""

import pytest

from common.http.cookies import has_attribute, pairs, set_cookie_name
from sessions_app.gateway.auth.cookies import MAX_COOKIE_BYTES, MAX_NAMES, AppCookies, CookieNameRegistry

KEY = b"key"


def endpoint(port: int = 8101, registry: CookieNameRegistry | None = None, key: bytes = KEY) -> AppCookies:
    return AppCookies(key, registry or CookieNameRegistry(), port)


HOST = AppCookies(KEY, CookieNameRegistry(), label="lab-abcdefghijklm")


def kept_of(set_cookie: bytes) -> bytes:
    """What a browser sends back of a Set-Cookie header."""
    return set_cookie.partition(b";")[0]


def test_cookies_are_read_as_browsers_write_them() -> None:
    assert list(pairs(b"a=1;b = 2 ;; lone; c=d=e")) == [
        (b"a", b"1"),
        (b"b", b"2"),
        (b"", b"lone"),
        (b"c", b"d=e"),
    ]
    assert set_cookie_name(b" a =1; Path=/") == b"a"
    assert set_cookie_name(b"=berth_session=x") == set_cookie_name(b"berth_session; Path=/") == b""
    assert has_attribute(b"a=1; httponly ;Path=/", b"HttpOnly")
    assert not has_attribute(b"HttpOnly=1; Path=/", b"httponly")


@pytest.mark.parametrize("policy", [HOST, endpoint()])
def test_no_app_gets_a_cookie_of_the_portal_or_of_app_access(policy: AppCookies) -> None:
    ours = b"berth_session=s; berth_csrf=c; __Host-berth-app=a; berth-app-8101=b; berth-8102-x=y.z; lone; Berth=1"
    assert policy.to_app(ours) == b""
    assert policy.to_app(ours + b"; own=1") == b"own=1"


@pytest.mark.parametrize("policy", [HOST, endpoint()])
@pytest.mark.parametrize(
    "set_cookie",
    [
        b"berth_session=evil; Path=/",
        b"berth-app-8102=evil; HttpOnly",
        b"__Host-berth-app=evil; Secure; Path=/",
        b"=berth_session=evil",
        b"berth_session",
        b"BERTH_SESSION=evil",
    ],
)
def test_no_app_sets_one(policy: AppCookies, set_cookie: bytes) -> None:
    assert policy.from_app(set_cookie) == ()


def test_on_a_host_of_its_own_nobody_else_can_set_what_is_httponly() -> None:
    (renamed,) = HOST.from_app(b"login=mine; HttpOnly")
    assert HOST.from_app(b"theme=dark") == (b"theme=dark",)
    assert HOST.to_app(b"login=evil; " + kept_of(renamed)) == b"login=mine"
    sibling = AppCookies(KEY, CookieNameRegistry(), label="evil-abcdefghijklm")
    (forged,) = sibling.from_app(b"login=evil; HttpOnly")
    assert HOST.to_app(kept_of(forged)) == b""
    assert all(HOST.from_app(b"c%d=x; HttpOnly" % number) for number in range(100))


def test_at_a_port_what_scripts_must_not_see_comes_back_to_its_app_alone() -> None:
    (renamed,) = endpoint().from_app(b"token=t=1; Path=/lab; HttpOnly")
    assert renamed.startswith(b"berth-8101-token=t=1.")
    assert renamed.endswith(b"; Path=/lab; HttpOnly")
    assert endpoint().to_app(b"a=1; " + kept_of(renamed)) == b"token=t=1; a=1"
    assert endpoint(8102).to_app(kept_of(renamed)) == b""
    assert HOST.to_app(kept_of(renamed)) == b""


def test_nobody_can_put_another_in_its_place() -> None:
    (renamed,) = endpoint().from_app(b"token=mine; HttpOnly")
    (other,) = endpoint(key=b"other").from_app(b"token=forged; HttpOnly")
    (elsewhere,) = endpoint(8102).from_app(b"token=forged; HttpOnly")
    moved = kept_of(elsewhere).replace(b"8102", b"8101")
    for forged in (kept_of(other), moved, b"berth-8101-token=forged", b"token=forged"):
        assert endpoint().to_app(forged + b"; " + kept_of(renamed)) == b"token=mine"
    assert endpoint().to_app(moved) == b""


def test_what_is_deleted_without_httponly_is_gone_under_both_names() -> None:
    plain, renamed = endpoint().from_app(b"token=; Max-Age=0; Path=/")
    assert plain == b"token=; Max-Age=0; Path=/"
    assert renamed.startswith(b"berth-8101-token=.")
    assert renamed.endswith(b"; Max-Age=0; Path=/; HttpOnly")
    assert endpoint().from_app(b"theme=dark") == (b"theme=dark",)


def test_cookies_that_scripts_cannot_delete_have_bounded_room() -> None:
    registry = CookieNameRegistry()
    kept = [endpoint(registry=registry).from_app(b"c%d=x; HttpOnly" % number) for number in range(100)]
    assert sum(map(len, kept)) == MAX_NAMES
    assert endpoint(registry=registry).from_app(b"c0=again; HttpOnly")
    assert endpoint().from_app(b"big=" + b"x" * MAX_COOKIE_BYTES + b"; HttpOnly") == ()
    assert endpoint(8102, registry).from_app(b"c0=x; HttpOnly")
    assert endpoint(registry=registry).from_app(b"late=; Max-Age=0") == (b"late=; Max-Age=0",)
