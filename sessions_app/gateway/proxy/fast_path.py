"""Forward most app requests in the same turn of the event loop, without an ASGI task.

Takes GET and HEAD requests with recently checked access to apps with an idle kept connection. Makes
the same decisions as `AppProxy`; everything else is left to it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from sessions_app.core.app_address import Door, is_secret
from sessions_app.gateway.activity.recorder import Interactions
from sessions_app.gateway.auth import app_sign_in
from sessions_app.gateway.auth.access_cache import Admissions
from sessions_app.gateway.auth.origin_rules import allows_http
from sessions_app.gateway.proxy.interfaces import Admission, AppState
from sessions_app.gateway.proxy.open_connections import Kind, OpenConnections, TooManyConnections
from sessions_app.gateway.proxy.request import Call
from transport.proxy import HeaderRules, RequestRefused, Transport, UpstreamError, request_head
from transport.proxy.asgi import Receive, Scope, Send
from transport.proxy.connection import Connection
from transport.proxy.fast_relay import Relay
from transport.server import Exchange

_METHODS = frozenset(("GET", "HEAD"))
_ROUTES_LIMIT = 256
_ROUTE_LIMIT_BYTES = 4096


class LongWay(Protocol):
    """Interface of AppProxy that the fast path uses."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def owns(self, scope: Scope) -> bool: ...

    def door_of(self, scope: Scope) -> Door | None: ...

    def rules(self, call: Call, door: Door, admission: Admission) -> HeaderRules: ...

    async def answer_fault(
        self, call: Call, door: Door, admission: Admission, secret: str, fault: UpstreamError
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class _Route:
    """Routing result for one set of request headers, independent of the path."""

    door: Door
    secret: str
    admission: Admission
    rules: HeaderRules
    lines: bytes  # head for the app, after its request line
    is_navigation: bool


class AtOnce:
    """Fast path of one AppProxy."""

    def __init__(
        self,
        long_way: LongWay,
        admissions: Admissions,
        connections: OpenConnections,
        transport: Transport,
        interactions: Interactions,
    ) -> None:
        self.interactions = interactions
        self.long_way = long_way
        self.admissions = admissions
        self.connections = connections
        self.transport = transport
        self._routes: dict[tuple[object, ...], _Route] = {}

    def handle(self, exchange: Exchange) -> bool:
        """Serve the exchange if possible; returns False if the regular path must serve it."""
        scope = exchange.scope
        if scope["method"] not in _METHODS or scope["path"].startswith(app_sign_in.OWN_PREFIX):
            return False
        route = self._route(exchange, scope)
        if route is None or route.admission.target is None:
            return False
        connection = self.transport.pool.reuse(route.admission.target)
        if connection is None:
            return False
        if _Passage(self, exchange, route).begin(connection):
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
            and self.admissions.known(route.door, route.secret, scope["client"][0]) is route.admission
        ):
            return route
        route = self._find_route(exchange, scope)
        if route is not None and len(route.lines) <= _ROUTE_LIMIT_BYTES:
            if len(self._routes) >= _ROUTES_LIMIT:
                self._routes.clear()
            self._routes[key] = route
        return route

    def _find_route(self, exchange: Exchange, scope: Scope) -> _Route | None:
        door = self.long_way.door_of(scope) if self.long_way.owns(scope) else None
        if door is None:
            return None
        call = Call(scope, exchange.receive, exchange.send)
        secret = _secret(call, door)
        admission = self.admissions.known(door, secret, call.client_ip) if secret else None
        if admission is None or admission.state is not AppState.OPEN:
            return None
        rules = self.long_way.rules(call, door, admission)
        try:
            head = request_head(scope, rules)
        except RequestRefused:
            return None  # the regular path reports it
        return _Route(door, secret, admission, rules, head[head.index(b"\r\n") :], call.is_navigation)


class _Passage:
    """One request on the fast path, with fallback to the regular one."""

    __slots__ = ("_exchange", "_leave", "_relay", "_route", "_way")

    _relay: Relay
    _leave: Callable[[], None]

    def __init__(self, way: AtOnce, exchange: Exchange, route: _Route) -> None:
        self._way = way
        self._exchange = exchange
        self._route = route

    def begin(self, connection: Connection) -> bool:
        """Start the relay. Returns False if the session has too many connections; the regular path
        reports it.
        """
        way, route, scope = self._way, self._route, self._exchange.scope
        try:
            self._leave = way.connections.enter(route.admission.presence, Kind.REQUEST, self._cut)
        except TooManyConnections:
            return False
        way.interactions.note_request(
            route.admission.presence.session_id,
            scope["method"],
            scope["path"],
            is_navigation=route.is_navigation,
        )
        self._relay = Relay(
            self._exchange, connection, transport=way.transport, rules=route.rules, on_end=self._end
        )
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        line = b"%b %b%b HTTP/1.1" % (scope["method"].encode(), scope["raw_path"], query)
        self._relay.start(line + route.lines)
        return True

    def _end(self, fault: UpstreamError | None) -> None:
        self._leave()
        if fault is None or self._exchange.is_gone:
            return
        if self._relay.may_be_repeated:
            self._exchange.run(self._way.long_way)
        else:
            self._exchange.run(partial(self._explain, fault))

    async def _explain(self, fault: UpstreamError, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._route
        call = Call(scope, receive, send)
        await self._way.long_way.answer_fault(call, route.door, route.admission, route.secret, fault)

    def _cut(self) -> None:
        """Stop because access has ended: cut off the response, or answer with a status page if it
        has not begun.
        """
        self._leave()
        self._relay.stop()
        if not self._exchange.has_begun:
            ip = self._exchange.scope["client"][0]
            self._way.admissions.forget(self._route.door, self._route.secret, ip)
            self._exchange.run(self._way.long_way)


def _secret(call: Call, door: Door) -> str:
    """Return the only secret of the request if its origin is allowed; "" if the regular path must decide."""
    if call.token:
        return call.token if is_secret(call.token) else ""
    if not allows_http(call.method, call.headers, call.own_origin):
        return ""
    given = [value for value in call.cookies(app_sign_in.names_for(door).app) if is_secret(value)]
    return given[0] if len(given) == 1 else ""
