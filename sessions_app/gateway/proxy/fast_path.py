"""Forward most app requests in the same turn of the event loop, without an ASGI task.

Takes GET and HEAD requests with recently checked access to apps with an idle kept connection. Makes
the same decisions as `AppProxy`; everything else is left to it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from sessions_app.core.app_address import AppEndpoint, is_secret
from sessions_app.gateway.activity.recorder import ActivityRecorder
from sessions_app.gateway.auth import app_sign_in
from sessions_app.gateway.auth.access_cache import AccessCache
from sessions_app.gateway.auth.origin_rules import allows_http
from sessions_app.gateway.proxy.access_types import AppAccess, AppState
from sessions_app.gateway.proxy.open_connections import ConnectionKind, OpenConnections, TooManyConnections
from sessions_app.gateway.proxy.request import AppRequest
from transport.proxy import HeaderRules, RequestRefused, Transport, UpstreamError, request_head
from transport.proxy.connection import Connection
from transport.proxy.fast_relay import Relay
from transport.server import Exchange
from transport.server.asgi import Receive, Scope, Send

_METHODS = frozenset(("GET", "HEAD"))
_ROUTES_LIMIT = 256
_ROUTE_LIMIT_BYTES = 4096


class RegularPath(Protocol):
    """Interface of AppProxy that the fast path uses."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def owns(self, scope: Scope) -> bool: ...

    def find_endpoint(self, scope: Scope) -> AppEndpoint | None: ...

    def rules(self, request: AppRequest, endpoint: AppEndpoint, access: AppAccess) -> HeaderRules: ...

    async def answer_fault(
        self, request: AppRequest, endpoint: AppEndpoint, access: AppAccess, secret: str, fault: UpstreamError
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class _Route:
    """Routing result for one set of request headers, independent of the path."""

    endpoint: AppEndpoint
    secret: str
    access: AppAccess
    rules: HeaderRules
    lines: bytes  # head for the app, after its request line
    is_navigation: bool


class FastPath:
    """Fast path of one AppProxy."""

    def __init__(
        self,
        regular_path: RegularPath,
        access_cache: AccessCache,
        connections: OpenConnections,
        transport: Transport,
        recorder: ActivityRecorder,
    ) -> None:
        self.recorder = recorder
        self.regular_path = regular_path
        self.access_cache = access_cache
        self.connections = connections
        self.transport = transport
        self._routes: dict[tuple[object, ...], _Route] = {}

    def handle(self, exchange: Exchange) -> bool:
        """Serve the exchange if possible; returns False if the regular path must serve it."""
        scope = exchange.scope
        if scope["method"] not in _METHODS or scope["path"].startswith(app_sign_in.OWN_PREFIX):
            return False
        route = self._route(exchange, scope)
        if route is None or route.access.target is None:
            return False
        connection = self.transport.pool.reuse(route.access.target)
        if connection is None:
            return False
        if _FastRequest(self, exchange, route).begin(connection):
            return True
        self.transport.pool.release(connection)
        return False

    def _route(self, exchange: Exchange, scope: Scope) -> _Route | None:
        """Return the route of a request, or None. Access is looked up for every request; the rest
        is cached by headers, because a page sends a hundred requests with the same ones.
        """
        key = (scope["method"], scope["scheme"], scope["client"][0], scope["server"][1], *scope["headers"])
        route = self._routes.get(key)
        if (
            route is not None
            and self.access_cache.known(route.endpoint, route.secret, scope["client"][0]) is route.access
        ):
            return route
        route = self._find_route(exchange, scope)
        if route is not None and len(route.lines) <= _ROUTE_LIMIT_BYTES:
            if len(self._routes) >= _ROUTES_LIMIT:
                self._routes.clear()
            self._routes[key] = route
        return route

    def _find_route(self, exchange: Exchange, scope: Scope) -> _Route | None:
        endpoint = self.regular_path.find_endpoint(scope) if self.regular_path.owns(scope) else None
        if endpoint is None:
            return None
        request = AppRequest(scope, exchange.receive, exchange.send)
        secret = _secret(request, endpoint)
        access = self.access_cache.known(endpoint, secret, request.client_ip) if secret else None
        if access is None or access.state is not AppState.OPEN:
            return None
        rules = self.regular_path.rules(request, endpoint, access)
        try:
            head = request_head(scope, rules)
        except RequestRefused:
            return None  # the regular path reports it
        return _Route(endpoint, secret, access, rules, head[head.index(b"\r\n") :], request.is_navigation)


class _FastRequest:
    """One request on the fast path, with fallback to the regular one."""

    __slots__ = ("_close", "_exchange", "_fast_path", "_relay", "_route")

    _relay: Relay
    _close: Callable[[], None]

    def __init__(self, fast_path: FastPath, exchange: Exchange, route: _Route) -> None:
        self._fast_path = fast_path
        self._exchange = exchange
        self._route = route

    def begin(self, connection: Connection) -> bool:
        """Start the relay. Returns False if the session has too many connections; the regular path
        reports it.
        """
        fast_path, route, scope = self._fast_path, self._route, self._exchange.scope
        try:
            self._close = fast_path.connections.open(route.access.presence, ConnectionKind.REQUEST, self._cut)
        except TooManyConnections:
            return False
        fast_path.recorder.record_request(
            route.access.presence.session_id,
            scope["method"],
            scope["path"],
            is_navigation=route.is_navigation,
        )
        self._relay = Relay(
            self._exchange, connection, transport=fast_path.transport, rules=route.rules, on_end=self._end
        )
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        line = b"%b %b%b HTTP/1.1" % (scope["method"].encode(), scope["raw_path"], query)
        self._relay.start(line + route.lines)
        return True

    def _end(self, fault: UpstreamError | None) -> None:
        self._close()
        if fault is None or self._exchange.is_gone:
            return
        if self._relay.may_be_repeated:
            self._exchange.run(self._fast_path.regular_path)
        else:
            self._exchange.run(partial(self._explain, fault))

    async def _explain(self, fault: UpstreamError, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._route
        request = AppRequest(scope, receive, send)
        await self._fast_path.regular_path.answer_fault(
            request, route.endpoint, route.access, route.secret, fault
        )

    def _cut(self) -> None:
        """Stop because access has ended: cut off the response, or answer with a status page if it
        has not begun.
        """
        self._close()
        self._relay.stop()
        if not self._exchange.has_begun:
            ip = self._exchange.scope["client"][0]
            self._fast_path.access_cache.forget(self._route.endpoint, self._route.secret, ip)
            self._exchange.run(self._fast_path.regular_path)


def _secret(request: AppRequest, endpoint: AppEndpoint) -> str:
    """Return the only secret of the request if its origin is allowed; "" if the regular path must decide."""
    if request.token:
        return request.token if is_secret(request.token) else ""
    if not allows_http(request.method, request.headers, request.own_origin):
        return ""
    given = [value for value in request.cookies(app_sign_in.cookie_names(endpoint).app) if is_secret(value)]
    return given[0] if len(given) == 1 else ""
