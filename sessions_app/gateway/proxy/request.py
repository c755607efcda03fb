"""Wrap an ASGI request to an app with the properties that the gateway needs."""

from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest
from django.utils import translation

from common.http.cookies import pairs
from sessions_app.core.app_address import TOKEN_PREFIX, host_name
from sessions_app.gateway.auth.origin_rules import header, is_top_level_navigation
from sessions_app.gateway.proxy import app_ports
from sessions_app.gateway.proxy.status_pages import Page
from transport.proxy import Headers, reject_websocket
from transport.server.asgi import Message, Receive, Scope, Send

# Names on app hosts; the prefix `__Host-` binds the cookies to the host.
APP_COOKIE = "__Host-berth-app"
STATE_COOKIE = "__Host-berth-state"
CUT_CODE = 4403
_VALUES_LOOKED_AT = 8


class AppRequest:
    """ASGI request that records whether its response has begun; before that a page can be the response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.headers: Headers = scope["headers"]
        self.is_websocket = scope["type"] == "websocket"
        self.method: str = "GET" if self.is_websocket else scope["method"]
        self.has_begun = False
        self._send = send

    @property
    def is_navigation(self) -> bool:
        return not self.is_websocket and is_top_level_navigation(self.method, self.headers)

    @property
    def client_ip(self) -> str:
        return str((self.scope.get("client") or [""])[0])

    @property
    def host(self) -> str:
        """Value of the Host header."""
        return header(self.headers, b"host").decode("latin-1")

    @property
    def portal(self) -> str:
        """URL of the portal for this client."""
        server = self.scope.get("server")
        is_by_port = server is not None and app_ports.is_app_port_host(self.host, server[1])
        return app_ports.portal_url_at(host_name(self.host)) if is_by_port else settings.BERTH_URL

    @property
    def token(self) -> str:
        """Secret of an app token in the Authorization header, or ""."""
        scheme, _, text = header(self.headers, b"authorization").decode("latin-1").partition(" ")
        return (
            text.removeprefix(TOKEN_PREFIX)
            if scheme.lower() == "bearer" and text.startswith(TOKEN_PREFIX)
            else ""
        )

    @property
    def own_origin(self) -> bytes:
        is_secure = self.scope["scheme"] in ("https", "wss")
        return (b"https://" if is_secure else b"http://") + header(self.headers, b"host").lower()

    @property
    def path_and_query(self) -> str:
        query = self.scope["query_string"]
        path: bytes = self.scope["raw_path"] + (b"?" + query if query else b"")
        return path.decode("ascii", "replace")

    def cookies(self, name: str) -> list[str]:
        """Return all values of the cookie: scripts at other ports may have added some."""
        wanted = name.encode()
        headers = (value for key, value in self.headers if key == b"cookie")
        found = (value for header in headers for given, value in pairs(header) if given == wanted)
        return [value.decode("latin-1") for value in found][:_VALUES_LOOKED_AT]

    async def send(self, message: Message) -> None:
        self.has_begun = True
        await self._send(message)

    async def answer(self, page: Page) -> None:
        """Send the page: HTML for browser navigation, else one line of text."""
        if self.is_websocket:
            status = page.status
            await reject_websocket(self.scope, self.receive, self.send, status=status, text=page.title)
            return
        headers, body = page.as_html(self.portal) if self.is_navigation else page.as_text()
        await self.respond(page.status, headers, body)

    async def respond(self, status: int, headers: Headers, body: bytes = b"") -> None:
        if body:
            headers = [*headers, (b"content-length", b"%d" % len(body))]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else body})


def client_language(headers: Headers) -> translation.override:
    """Return a context manager that activates the client's language: from the portal's language
    cookie (sent to ports of its host too), else from Accept-Language, else English.
    """
    wanted = settings.LANGUAGE_COOKIE_NAME.encode()
    cookies = (pair for name, value in headers if name == b"cookie" for pair in pairs(value))
    chosen = next((value for name, value in cookies if name == wanted), b"")
    return translation.override(
        _best(chosen.decode("latin-1"), header(headers, b"accept-language").decode("latin-1"))
    )


@lru_cache(maxsize=256)
def _best(chosen: str, accepted: str) -> str:
    request = HttpRequest()
    request.COOKIES = {settings.LANGUAGE_COOKIE_NAME: chosen}
    request.META = {"HTTP_ACCEPT_LANGUAGE": accepted}
    return translation.get_language_from_request(request)
