"""Route requests: app hosts and app ports to the apps of sessions, everything else to the portal.

The outermost ASGI application. Requests whose cookie was checked within seconds pass no Django
middleware and cause no query.
"""

import asyncio
import re
from uuid import UUID

from django.conf import settings

from accounts.core.token_secrets import hash_secret
from sessions_app.core.app_address import AppPort, Door, is_secret, is_under, parse_app_host
from sessions_app.gateway.activity.recorder import Interactions
from sessions_app.gateway.activity.recorder import interactions as all_interactions
from sessions_app.gateway.auth import app_sign_in
from sessions_app.gateway.auth import authorizer as auth_authorizer
from sessions_app.gateway.auth.access_cache import Admissions
from sessions_app.gateway.auth.cookies import AppCookies, Shelf
from sessions_app.gateway.auth.origin_rules import allows_http, allows_websocket, header
from sessions_app.gateway.proxy import app_ports, status_pages
from sessions_app.gateway.proxy.fast_path import AtOnce
from sessions_app.gateway.proxy.interfaces import AccessUnknown, Admission, AppState, Authorizer
from sessions_app.gateway.proxy.language import in_language_of
from sessions_app.gateway.proxy.open_connections import (
    ConnectionCut,
    Kind,
    OpenConnections,
    TooManyConnections,
)
from sessions_app.gateway.proxy.request import CUT_CODE, Call
from transport.proxy import (
    HeaderRules,
    RequestRefused,
    Transport,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnreachable,
    forward_http,
    forward_websocket,
)
from transport.proxy.asgi import AsgiApp, Receive, Scope, Send
from transport.server import Exchange

# Shortest time between two attempts to start an app, while a page waits for it.
START_AGAIN_S = 15.0
_FAREWELL = (CUT_CODE, "Access has ended.")
_OUR_TOKEN = re.compile(rb"bearer\s+(?:bk|ba\.)", re.IGNORECASE)
_RESPONSE_POLICY = ((b"cross-origin-resource-policy", b"same-origin"),)
# Ports are reused: a cached response of one app must not be served as another's.
_RESPONSE_POLICY_OF_PORTS = (*_RESPONSE_POLICY, (b"cache-control", b"no-store"))
# Would clear the cookies of other ports and of the portal, and the app's own sign-in.
_NOT_FOR_APPS = frozenset((b"clear-site-data",))
_FRAME_POLICY = ((b"content-security-policy", b"frame-ancestors 'self'"),)


class AppProxy:
    """Gateway proxy. One per process, used from one event loop."""

    def __init__(
        self,
        *,
        apps_domain: str,
        fallback: AsgiApp,
        authorizer: Authorizer | None = None,
        connections: OpenConnections | None = None,
        transport: Transport | None = None,
        interactions: Interactions | None = None,
    ) -> None:
        self._apps_domain = apps_domain
        self._fallback = fallback
        self._authorizer = authorizer or auth_authorizer.authorizer()
        self._connections = connections or auth_authorizer.open_connections()
        self._transport = transport or Transport()
        self._admissions = Admissions(self._authorizer, self._connections)
        self._interactions = interactions or all_interactions()
        self._at_once = AtOnce(self, self._admissions, self._connections, self._transport, self._interactions)
        self._starts = _Starts()
        self._shelf = Shelf()
        self._cookie_key = hash_secret(f"app cookies {settings.SECRET_KEY}").encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._fallback(scope, receive, send)
            return
        if not self.owns(scope):
            await self._fallback(scope, receive, send)
            return
        call = Call(scope, receive, send)
        with in_language_of(call.headers):
            await self._answer(call)

    def handle(self, exchange: Exchange) -> bool:
        """Serve the exchange on the fast path if possible; returns False if not. Pre-app handler of
        the server.
        """
        return self._at_once.handle(exchange)

    def owns(self, scope: Scope) -> bool:
        """Return True if the address is an app host or app port, even one without app. Pre-app
        handler of the server.
        """
        port = scope["server"][1] if scope.get("server") else None
        return port in app_ports.listening_ports() or any(
            is_under(host, self._apps_domain) for host in _hosts(scope)
        )

    def door_of(self, scope: Scope) -> Door | None:
        """Return the app endpoint of a request, or None."""
        hosts = _hosts(scope)
        if len(hosts) != 1:
            return None
        port = scope["server"][1] if scope.get("server") else 0
        if port in app_ports.listening_ports():
            return AppPort(port) if app_ports.may_knock(hosts[0], port) else None
        return parse_app_host(hosts[0], self._apps_domain)

    async def close(self) -> None:
        """Close idle connections to apps."""
        await self._transport.close()

    async def _answer(self, call: Call) -> None:
        door = self.door_of(call.scope)
        if door is None:
            await call.answer(status_pages.no_such_place())
        elif call.scope["path"].startswith(app_sign_in.OWN_PREFIX):
            await self._answer_own(call, door)
        else:
            await self._enter(call, door)

    async def _answer_own(self, call: Call, door: Door) -> None:
        if call.scope["path"] == app_sign_in.CALLBACK_PATH and call.method == "GET" and not call.is_websocket:
            await app_sign_in.finish(call, door, self._authorizer)
        else:
            await call.answer(status_pages.no_such_place())

    async def _enter(self, call: Call, door: Door) -> None:
        """Check origin, then cookie or token, then the state of session and app; then forward."""
        # A browser stores no program's token, so no page can have it sent.
        if not call.token and not may_come_from_there(call):
            await call.answer(status_pages.from_elsewhere())
            return
        try:
            secret, admission = await self._admitted(call, door)
        except AccessUnknown:
            await call.answer(status_pages.unknown_access())
            return
        if admission is None:
            is_person = call.is_navigation and not call.token
            await (app_sign_in.begin(call, door) if is_person else call.answer(status_pages.signed_out()))
        elif admission.state is AppState.OPEN:
            await self._carry(call, door, admission, secret)
        else:
            await call.answer(_page_of_state(admission))

    async def _admitted(self, call: Call, door: Door) -> tuple[str, Admission | None]:
        """Return the secret that grants access and the access, or ("", None). Tries each cookie,
        because scripts at other ports may have added cookies of the same name.
        """
        given = [call.token] if call.token else call.cookies(app_sign_in.names_for(door).app)
        for secret in filter(is_secret, given):
            admission = await self._admissions.find(door, secret, call.client_ip)
            if admission is not None:
                return secret, admission
        return "", None

    async def _carry(self, call: Call, door: Door, admission: Admission, secret: str) -> None:
        kind = Kind.WEBSOCKET if call.is_websocket else Kind.REQUEST
        try:
            async with self._connections.carry(admission.presence, kind):
                self._note(call, admission)
                await self._forward(call, door, admission)
        except UpstreamError as exc:
            await self.answer_fault(call, door, admission, secret, exc)
        except RequestRefused as exc:
            await call.answer(status_pages.unclear_request(str(exc)))
        except TooManyConnections:
            await call.answer(status_pages.too_many(admission))
        except ConnectionCut:
            obstacle = await self._what_stands_in_the_way(call, door, secret)
            if not call.has_begun:  # otherwise the response is cut off, which shows the client the end
                await call.answer(obstacle or status_pages.signed_out())
        else:
            self._starts.note_up(admission.presence.session_id, admission.app)

    async def answer_fault(
        self, call: Call, door: Door, admission: Admission, secret: str, fault: UpstreamError
    ) -> None:
        """Answer a request for which the app gave no response."""
        with in_language_of(call.headers):
            obstacle = await self._what_stands_in_the_way(call, door, secret)
            await call.answer(obstacle or await self._explain(fault, admission))

    async def _what_stands_in_the_way(self, call: Call, door: Door, secret: str) -> status_pages.Page | None:
        """Check access again, because the cached access may be seconds old. Returns the page to
        show, or None if the app is still accessible.
        """
        self._admissions.forget(door, secret, call.client_ip)
        try:
            admission = await self._admissions.find(door, secret, call.client_ip)
        except AccessUnknown:
            return status_pages.unknown_access()
        if admission is None:
            return status_pages.signed_out()
        return None if admission.state is AppState.OPEN else _page_of_state(admission)

    def _note(self, call: Call, admission: Admission) -> None:
        if not call.is_websocket:
            self._interactions.note_request(
                admission.presence.session_id,
                call.method,
                call.scope["path"],
                is_navigation=call.is_navigation,
            )

    async def _forward(self, call: Call, door: Door, admission: Admission) -> None:
        assert admission.target is not None
        rules = self.rules(call, door, admission)
        way = (call.scope, call.receive, call.send)
        if call.is_websocket:
            await forward_websocket(
                *way,
                transport=self._transport,
                target=admission.target,
                rules=rules,
                close_reason=_FAREWELL,
                on_message=self._interactions.hear(admission.presence.session_id),
            )
        else:
            await forward_http(*way, transport=self._transport, target=admission.target, rules=rules)

    def rules(self, call: Call, door: Door, admission: Admission) -> HeaderRules:
        """Return the header changes for requests to this app and its responses."""
        is_ours = _OUR_TOKEN.match(header(call.headers, b"authorization")) is not None
        token = admission.app_token.encode()
        port, label = (door.number, "") if isinstance(door, AppPort) else (0, door.label)
        return HeaderRules(
            cookies=AppCookies(self._cookie_key, self._shelf, port, label),
            drop_response=_NOT_FOR_APPS,
            drop_request=frozenset((b"authorization",)) if is_ours else frozenset(),
            set_request=((b"authorization", b"token " + token),) if token else (),
            set_response=_RESPONSE_POLICY_OF_PORTS if port else _RESPONSE_POLICY,
            add_response=_FRAME_POLICY,
        )

    async def _explain(self, exc: UpstreamError, admission: Admission) -> status_pages.Page:
        """Return the page for an app that did not answer; starts the app if it is not running."""
        if isinstance(exc, UpstreamTimeout):
            return status_pages.broken(admission, str(exc), is_timeout=True)
        if not isinstance(exc, UpstreamUnreachable):
            return status_pages.broken(admission, str(exc), is_timeout=False)
        if not admission.is_startable:
            return status_pages.nothing_listens(admission)
        session_id = admission.presence.session_id
        if self._starts.is_due(session_id, admission.app):
            try:
                why_not = await self._authorizer.start_app(session_id, admission.app)
            except AccessUnknown:
                return status_pages.unknown_access()
            if why_not:
                return status_pages.not_started(admission, why_not)
        return status_pages.starting(admission, self._starts.waited_s(session_id, admission.app))


class _Starts:
    """Pending starts of apps: {(session, app): (first request, last request)}."""

    def __init__(self) -> None:
        self._asked: dict[tuple[UUID, str], tuple[float, float]] = {}

    def is_due(self, session_id: UUID, app: str) -> bool:
        """Return True, and record a request, if the app should be started now."""
        now = asyncio.get_running_loop().time()
        first, last = self._asked.get((session_id, app), (now, now - START_AGAIN_S))
        is_due = now - last >= START_AGAIN_S
        self._asked[session_id, app] = (first, now if is_due else last)
        return is_due

    def waited_s(self, session_id: UUID, app: str) -> float:
        first, _ = self._asked[session_id, app]
        return asyncio.get_running_loop().time() - first

    def note_up(self, session_id: UUID, app: str) -> None:
        self._asked.pop((session_id, app), None)


def _hosts(scope: Scope) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]


def may_come_from_there(call: Call) -> bool:
    if call.is_websocket:
        return allows_websocket(call.headers, call.own_origin)
    return allows_http(call.method, call.headers, call.own_origin)


def _page_of_state(admission: Admission) -> status_pages.Page:
    if admission.state is AppState.WAITING:
        return status_pages.waiting(admission)
    if admission.state is AppState.ENDED:
        return status_pages.ended(admission)
    return status_pages.unknown_app(admission)
