"""Whether a browser's request may come from where it comes from. Pure.

Cookies do not answer that: browsers send even SameSite=Strict ones between sibling sub-domains and between ports, so an
app of another session could act with the viewer's cookie. `Origin` and `Sec-Fetch-*` cannot be forged by a page. Under a
plain address browsers send no `Sec-Fetch-*`; there `Origin` and `Referer` must do, and what a page may still send
blindly is a GET whose answer it cannot read.
"""

from transport.proxy.headers import Headers

_NAVIGATION_METHODS = frozenset(("GET", "HEAD"))
_FOREIGN_SITES = frozenset((b"same-site", b"cross-site"))


def header(headers: Headers, name: bytes) -> bytes:
    """The header's first value, or b""."""
    for key, value in headers:
        if key == name:
            return value
    return b""


def is_top_level_navigation(method: str, headers: Headers) -> bool:
    """Whether a person opens a page in a tab of its own. A client without Sec-Fetch-* that asks for HTML counts too:
    browsers under a plain address, those of before 2023, and command-line tools."""
    if method not in _NAVIGATION_METHODS:
        return False
    mode = header(headers, b"sec-fetch-mode")
    if not mode:
        return b"text/html" in header(headers, b"accept")
    return mode == b"navigate" and header(headers, b"sec-fetch-dest") == b"document"


def allows_http(method: str, headers: Headers, own_origin: bytes) -> bool:
    """A page of another origin may link here, and do nothing else."""
    origin, site = header(headers, b"origin"), header(headers, b"sec-fetch-site")
    if site in _FOREIGN_SITES:
        return is_top_level_navigation(method, headers)
    if origin:
        return origin == own_origin
    referer = header(headers, b"referer")
    if site or not referer or referer.startswith(own_origin + b"/"):
        return True
    return is_top_level_navigation(method, headers)


def allows_websocket(headers: Headers, own_origin: bytes) -> bool:
    """Only pages of the same origin. A handshake without Origin does not come from a page, yet carries a cookie that
    only browsers have."""
    return header(headers, b"origin") == own_origin
