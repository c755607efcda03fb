"""Origins from which an app may be requested."""

import pytest

from sessions_app.gateway.auth.origin_rules import allows_http, allows_websocket, is_top_level_navigation
from transport.proxy.headers import Headers

OWN = b"http://jupyter-abcdefghijklm.apps.localhost:8080"
SIBLING = b"http://evil-abcdefghijklz.apps.localhost:8080"


def fetch(site: bytes, mode: bytes = b"cors", dest: bytes = b"empty", origin: bytes = b"") -> Headers:
    headers = [(b"sec-fetch-site", site), (b"sec-fetch-mode", mode), (b"sec-fetch-dest", dest)]
    return headers + ([(b"origin", origin)] if origin else [])


@pytest.mark.parametrize("site", [b"same-site", b"cross-site"])
def test_a_foreign_page_may_link_and_nothing_else(site: bytes) -> None:
    assert allows_http("GET", fetch(site, b"navigate", b"document"), OWN)
    assert not allows_http("GET", fetch(site, b"navigate", b"iframe"), OWN)
    assert not allows_http("GET", fetch(site), OWN)
    assert not allows_http("GET", fetch(site, b"no-cors", b"script"), OWN)
    assert not allows_http("OPTIONS", fetch(site), OWN)
    assert not allows_http("POST", fetch(site, b"navigate", b"document", SIBLING), OWN)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"])
def test_writes_come_from_the_own_origin(method: str) -> None:
    assert allows_http(method, fetch(b"same-origin", origin=OWN), OWN)
    assert allows_http(method, [(b"origin", OWN)], OWN)
    assert not allows_http(method, [(b"origin", SIBLING)], OWN)
    assert not allows_http(method, [(b"origin", b"null")], OWN)


def test_the_own_page_and_the_address_bar_may_read() -> None:
    assert allows_http("GET", fetch(b"same-origin"), OWN)
    assert allows_http("GET", fetch(b"none", b"navigate", b"document"), OWN)


def test_where_browsers_say_less_origin_and_referer_decide() -> None:
    """Under a plain address there is no Sec-Fetch-*."""
    own_page, other_port = b"http://192.0.2.7:8081", b"http://192.0.2.7:8082"
    page = [(b"accept", b"text/html")]
    assert allows_http("GET", [(b"referer", own_page + b"/lab")], own_page)
    assert allows_http("GET", [], own_page)
    assert allows_http("GET", [*page, (b"referer", other_port + b"/")], own_page)
    assert not allows_http("GET", [(b"referer", other_port + b"/")], own_page)
    assert not allows_http("GET", [(b"referer", own_page + b"0/")], own_page)
    assert not allows_http("GET", [(b"origin", other_port)], own_page)
    assert not allows_http("GET", [*page, (b"origin", b"null")], own_page)


def test_a_websocket_needs_the_own_origin() -> None:
    assert allows_websocket([(b"origin", OWN)], OWN)
    assert not allows_websocket([(b"origin", SIBLING)], OWN)
    assert not allows_websocket([(b"origin", b"http://localhost:8080")], OWN)
    assert not allows_websocket([], OWN)


def test_a_navigation_is_told_from_a_fetch() -> None:
    assert is_top_level_navigation("GET", fetch(b"none", b"navigate", b"document"))
    assert not is_top_level_navigation("GET", fetch(b"same-origin", b"navigate", b"iframe"))
    assert not is_top_level_navigation("POST", fetch(b"same-origin", b"navigate", b"document"))
    assert is_top_level_navigation("GET", [(b"accept", b"text/html,*/*")])
    assert not is_top_level_navigation("GET", [(b"accept", b"*/*")])
