"""Check the origin of browser requests to apps. Pure.

Cookies do not protect: browsers send even SameSite=Strict cookies between sibling sub-domains and
between ports, so an app of another session could use the viewer's cookie. Pages cannot forge
`Origin` and `Sec-Fetch-*`. On plain-http addresses browsers send no `Sec-Fetch-*`; there `Origin`
and `Referer` are checked, and a foreign page can only send a GET whose answer it cannot read.
"""

from transport.proxy.headers import Headers

_NAVIGATION_METHODS = frozenset(("GET", "HEAD"))
_FOREIGN_SITES = frozenset((b"same-site", b"cross-site"))


def header(headers: Headers, name: bytes) -> bytes:
    """Return the first value of the header, or b""."""
    for key, value in headers:
        if key == name:
            return value
    return b""


def is_top_level_navigation(method: str, headers: Headers) -> bool:
    """Return True if the user opens the page in a tab. Clients without Sec-Fetch-* that accept HTML
    count too: browsers on plain-http addresses, browsers before 2023, command-line tools.
    """
    if method not in _NAVIGATION_METHODS:
        return False
    mode = header(headers, b"sec-fetch-mode")
    if not mode:
        return b"text/html" in header(headers, b"accept")
    return mode == b"navigate" and header(headers, b"sec-fetch-dest") == b"document"


def allows_http(method: str, headers: Headers, own_origin: bytes) -> bool:
    """Return True if the request may pass; from other origins only top-level navigation may."""
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
    """Return True for a handshake from a page of the same origin. One without Origin does not come
    from a page, yet only browsers have the cookie.
    """
    return header(headers, b"origin") == own_origin
