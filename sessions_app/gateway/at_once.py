"""The short way for most of what browsers ask of apps: a request without a body, by a person who was let in seconds
ago, to an app that a connection is kept to. It is carried in the turn of the event loop in which it came.

Nothing is decided here otherwise than on the long way; whatever is not plain is left to that one.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from common.proxy import HeaderRules, RequestRefused, Transport, UpstreamError, request_head
from common.proxy.asgi import Receive, Scope, Send
from common.proxy.connection import Connection
from common.proxy.relay import Relay
from common.server import Exchange
from sessions_app.gateway import sign_in
from sessions_app.gateway.admissions import Admissions
from sessions_app.gateway.call import Call
from sessions_app.gateway.connections import Kind, OpenConnections, TooManyConnections
from sessions_app.gateway.fetch_rules import allows_http
from sessions_app.gateway.ports import Admission, AppState
from sessions_app.tickets import Door, is_secret

_METHODS = frozenset(("GET", "HEAD"))


class LongWay(Protocol):
    """What AppProxy is here."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def owns(self, scope: Scope) -> bool: ...

    def door_of(self, scope: Scope) -> Door | None: ...

    def rules(self, call: Call, door: Door, admission: Admission) -> HeaderRules: ...

    async def answer_fault(
        self, call: Call, door: Door, admission: Admission, secret: str, fault: UpstreamError
    ) -> None: ...


class AtOnce:
    """Belongs to one AppProxy."""

    def __init__(
        self,
        long_way: LongWay,
        admissions: Admissions,
        connections: OpenConnections,
        transport: Transport,
    ) -> None:
        self._long_way = long_way
        self._admissions = admissions
        self._connections = connections
        self._transport = transport

    def take(self, exchange: Exchange) -> bool:
        """Whether the exchange is under way from here."""
        scope = exchange.scope
        if scope["method"] not in _METHODS or not self._long_way.owns(scope):
            return False
        door = self._long_way.door_of(scope)
        if door is None or scope["path"].startswith(sign_in.OWN_PREFIX):
            return False
        call = Call(scope, exchange.receive, exchange.send)
        secret = _secret(call, door)
        admission = self._admissions.known(door, secret) if secret else None
        if admission is None or admission.state is not AppState.OPEN or admission.target is None:
            return False
        connection = self._transport.pool.kept(admission.target)
        if connection is None:
            return False
        passage = _Passage(self, exchange, call, door, secret, admission)
        if passage.begin(connection):
            return True
        self._transport.pool.release(connection)
        return False

    def rules(self, call: Call, door: Door, admission: Admission) -> HeaderRules:
        return self._long_way.rules(call, door, admission)


class _Passage:
    """One request on the short way, and its return to the long one."""

    __slots__ = ("_admission", "_call", "_door", "_exchange", "_leave", "_relay", "_secret", "_way")

    _relay: Relay
    _leave: Callable[[], None]

    def __init__(
        self, way: AtOnce, exchange: Exchange, call: Call, door: Door, secret: str, admission: Admission
    ) -> None:
        self._way = way
        self._exchange = exchange
        self._call = call
        self._door = door
        self._secret = secret
        self._admission = admission

    def begin(self, connection: Connection) -> bool:
        way = self._way
        rules = way.rules(self._call, self._door, self._admission)
        try:
            head = request_head(self._exchange.scope, rules)
            self._leave = way._connections.enter(self._admission.presence, Kind.REQUEST, self._cut)
        except (RequestRefused, TooManyConnections):
            return False  # the long way answers that
        self._relay = Relay(
            self._exchange, connection, transport=way._transport, rules=rules, on_end=self._end
        )
        self._relay.start(head)
        return True

    def _end(self, fault: UpstreamError | None) -> None:
        self._leave()
        if fault is None or self._exchange.is_gone:
            return
        if self._relay.may_be_repeated:
            self._exchange.run(self._way._long_way)
            return
        explain = partial(
            self._way._long_way.answer_fault, self._call, self._door, self._admission, self._secret, fault
        )
        self._exchange.run(lambda scope, receive, send: explain())

    def _cut(self) -> None:
        """Access has ended: the answer breaks off, or is the page that says so."""
        self._leave()
        self._relay.stop()
        if not self._exchange.has_begun:
            self._way._admissions.forget(self._door, self._secret)
            self._exchange.run(self._way._long_way)


def _secret(call: Call, door: Door) -> str:
    """The one secret that the request brings, if it comes from where it may; "" where that takes a closer look."""
    if call.token:
        return call.token if is_secret(call.token) else ""
    if not allows_http(call.method, call.headers, call.own_origin):
        return ""
    given = [value for value in call.cookies(sign_in.names_for(door).app) if is_secret(value)]
    return given[0] if len(given) == 1 else ""
