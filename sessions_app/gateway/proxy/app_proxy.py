"""Route requests: app hosts and app ports to the apps of sessions, everything else to the portal.

The outermost ASGI application. Requests whose cookie was checked within seconds pass no Django
middleware and cause no query.
"""

import asyncio
import re
from uuid import UUID

from django.conf import settings

from accounts.core.token_secrets import hash_secret
from sessions_app.core.app_address import AppEndpoint, AppPort, is_secret, is_under, parse_app_host
from sessions_app.gateway.activity.recorder import ActivityRecorder
from sessions_app.gateway.activity.recorder import activity_recorder as process_recorder
from sessions_app.gateway.auth import app_sign_in
from sessions_app.gateway.auth import authorizer as auth_authorizer
from sessions_app.gateway.auth.access_cache import AccessCache
from sessions_app.gateway.auth.cookies import AppCookies, CookieNameRegistry
from sessions_app.gateway.auth.origin_rules import allows_http, allows_websocket, header
from sessions_app.gateway.proxy import app_ports, status_pages
from sessions_app.gateway.proxy.access_types import AccessUnknown, AppAccess, AppState, Authorizer
from sessions_app.gateway.proxy.fast_path import FastPath
from sessions_app.gateway.proxy.open_connections import (
    ConnectionCut,
    ConnectionKind,
    OpenConnections,
    TooManyConnections,
)
from sessions_app.gateway.proxy.request import CUT_CODE, AppRequest, client_language
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
from transport.server import Exchange
from transport.server.asgi import AsgiApp, Receive, Scope, Send

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
        activity_recorder: ActivityRecorder | None = None,
    ) -> None:
        self._apps_domain = apps_domain
        self._fallback = fallback
        self._authorizer = authorizer or auth_authorizer.authorizer()
        self._connections = connections or auth_authorizer.open_connections()
        self._transport = transport or Transport()
        self._access_cache = AccessCache(self._authorizer, self._connections)
        self._recorder = activity_recorder or process_recorder()
        self._fast_path = FastPath(
            self, self._access_cache, self._connections, self._transport, self._recorder
        )
        self._starts = _Starts()
        self._cookie_names = CookieNameRegistry()
        self._cookie_key = hash_secret(f"app cookies {settings.SECRET_KEY}").encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._fallback(scope, receive, send)
            return
        if not self.owns(scope):
            await self._fallback(scope, receive, send)
            return
        request = AppRequest(scope, receive, send)
        with client_language(request.headers):
            await self._answer(request)

    def handle(self, exchange: Exchange) -> bool:
        """Serve the exchange on the fast path if possible; returns False if not. Pre-app handler of
        the server.
        """
        return self._fast_path.handle(exchange)

    def owns(self, scope: Scope) -> bool:
        """Return True if the address is an app host or app port, even one without app. Pre-app
        handler of the server.
        """
        port = scope["server"][1] if scope.get("server") else None
        return port in app_ports.listening_ports() or any(
            is_under(host, self._apps_domain) for host in _hosts(scope)
        )

    def find_endpoint(self, scope: Scope) -> AppEndpoint | None:
        """Return the app endpoint of a request, or None."""
        hosts = _hosts(scope)
        if len(hosts) != 1:
            return None
        port = scope["server"][1] if scope.get("server") else 0
        if port in app_ports.listening_ports():
            return AppPort(port) if app_ports.is_app_port_host(hosts[0], port) else None
        return parse_app_host(hosts[0], self._apps_domain)

    async def close(self) -> None:
        """Close idle connections to apps."""
        await self._transport.close()

    async def _answer(self, request: AppRequest) -> None:
        endpoint = self.find_endpoint(request.scope)
        if endpoint is None:
            await request.answer(status_pages.no_such_address())
        elif request.scope["path"].startswith(app_sign_in.OWN_PREFIX):
            await self._answer_own(request, endpoint)
        else:
            await self._check_and_forward(request, endpoint)

    async def _answer_own(self, request: AppRequest, endpoint: AppEndpoint) -> None:
        if (
            request.scope["path"] == app_sign_in.CALLBACK_PATH
            and request.method == "GET"
            and not request.is_websocket
        ):
            await app_sign_in.finish_sign_in(request, endpoint, self._authorizer)
        else:
            await request.answer(status_pages.no_such_address())

    async def _check_and_forward(self, request: AppRequest, endpoint: AppEndpoint) -> None:
        """Check origin, then cookie or token, then the state of session and app; then forward."""
        # A browser stores no program's token, so no page can have it sent.
        if not request.token and not is_allowed_origin(request):
            await request.answer(status_pages.foreign_origin())
            return
        try:
            secret, access = await self._find_access(request, endpoint)
        except AccessUnknown:
            await request.answer(status_pages.unknown_access())
            return
        if access is None:
            is_person = request.is_navigation and not request.token
            await (
                app_sign_in.begin_sign_in(request, endpoint)
                if is_person
                else request.answer(status_pages.signed_out())
            )
        elif access.state is AppState.OPEN:
            await self._forward_tracked(request, endpoint, access, secret)
        else:
            await request.answer(_page_of_state(access))

    async def _find_access(self, request: AppRequest, endpoint: AppEndpoint) -> tuple[str, AppAccess | None]:
        """Return the secret that grants access and the access, or ("", None). Tries each cookie,
        because scripts at other ports may have added cookies of the same name.
        """
        given = [request.token] if request.token else request.cookies(app_sign_in.cookie_names(endpoint).app)
        for secret in filter(is_secret, given):
            access = await self._access_cache.find(endpoint, secret, request.client_ip)
            if access is not None:
                return secret, access
        return "", None

    async def _forward_tracked(
        self, request: AppRequest, endpoint: AppEndpoint, access: AppAccess, secret: str
    ) -> None:
        kind = ConnectionKind.WEBSOCKET if request.is_websocket else ConnectionKind.REQUEST
        try:
            async with self._connections.track(access.presence, kind):
                self._record_request(request, access)
                await self._forward(request, endpoint, access)
        except UpstreamError as exc:
            await self.answer_fault(request, endpoint, access, secret, exc)
        except RequestRefused as exc:
            await request.answer(status_pages.unclear_request(str(exc)))
        except TooManyConnections:
            await request.answer(status_pages.too_many(access))
        except ConnectionCut:
            obstacle = await self._obstacle_to(request, endpoint, secret)
            if not request.has_begun:  # otherwise the response is cut off, which shows the client the end
                await request.answer(obstacle or status_pages.signed_out())
        else:
            self._starts.clear(access.presence.session_id, access.app)

    async def answer_fault(
        self, request: AppRequest, endpoint: AppEndpoint, access: AppAccess, secret: str, fault: UpstreamError
    ) -> None:
        """Answer a request for which the app gave no response."""
        with client_language(request.headers):
            obstacle = await self._obstacle_to(request, endpoint, secret)
            await request.answer(obstacle or await self._explain(fault, access))

    async def _obstacle_to(
        self, request: AppRequest, endpoint: AppEndpoint, secret: str
    ) -> status_pages.Page | None:
        """Check access again, because the cached access may be seconds old. Returns the page to
        show, or None if the app is still accessible.
        """
        self._access_cache.forget(endpoint, secret, request.client_ip)
        try:
            access = await self._access_cache.find(endpoint, secret, request.client_ip)
        except AccessUnknown:
            return status_pages.unknown_access()
        if access is None:
            return status_pages.signed_out()
        return None if access.state is AppState.OPEN else _page_of_state(access)

    def _record_request(self, request: AppRequest, access: AppAccess) -> None:
        if not request.is_websocket:
            self._recorder.record_request(
                access.presence.session_id,
                request.method,
                request.scope["path"],
                is_navigation=request.is_navigation,
            )

    async def _forward(self, request: AppRequest, endpoint: AppEndpoint, access: AppAccess) -> None:
        assert access.target is not None
        rules = self.rules(request, endpoint, access)
        asgi = (request.scope, request.receive, request.send)
        if request.is_websocket:
            await forward_websocket(
                *asgi,
                transport=self._transport,
                target=access.target,
                rules=rules,
                close_reason=_FAREWELL,
                on_message=self._recorder.websocket_listener(access.presence.session_id),
            )
        else:
            await forward_http(*asgi, transport=self._transport, target=access.target, rules=rules)

    def rules(self, request: AppRequest, endpoint: AppEndpoint, access: AppAccess) -> HeaderRules:
        """Return the header changes for requests to this app and its responses."""
        is_ours = _OUR_TOKEN.match(header(request.headers, b"authorization")) is not None
        token = access.app_token.encode()
        port, label = (endpoint.number, "") if isinstance(endpoint, AppPort) else (0, endpoint.label)
        return HeaderRules(
            cookies=AppCookies(self._cookie_key, self._cookie_names, port, label),
            drop_response=_NOT_FOR_APPS,
            drop_request=frozenset((b"authorization",)) if is_ours else frozenset(),
            set_request=((b"authorization", b"token " + token),) if token else (),
            set_response=_RESPONSE_POLICY_OF_PORTS if port else _RESPONSE_POLICY,
            add_response=_FRAME_POLICY,
        )

    async def _explain(self, exc: UpstreamError, access: AppAccess) -> status_pages.Page:
        """Return the page for an app that did not answer; starts the app if it is not running."""
        if isinstance(exc, UpstreamTimeout):
            return status_pages.broken(access, str(exc), is_timeout=True)
        if not isinstance(exc, UpstreamUnreachable):
            return status_pages.broken(access, str(exc), is_timeout=False)
        if not access.is_startable:
            return status_pages.nothing_listens(access)
        session_id = access.presence.session_id
        if self._starts.is_due(session_id, access.app):
            try:
                why_not = await self._authorizer.start_app(session_id, access.app)
            except AccessUnknown:
                return status_pages.unknown_access()
            if why_not:
                return status_pages.not_started(access, why_not)
        return status_pages.starting(access, self._starts.waited_s(session_id, access.app))


class _Starts:
    """Pending starts of apps: {(session, app): (first request, last request)}."""

    def __init__(self) -> None:
        self._requested_at: dict[tuple[UUID, str], tuple[float, float]] = {}

    def is_due(self, session_id: UUID, app: str) -> bool:
        """Return True, and record a request, if the app should be started now."""
        now = asyncio.get_running_loop().time()
        first, last = self._requested_at.get((session_id, app), (now, now - START_AGAIN_S))
        is_due = now - last >= START_AGAIN_S
        self._requested_at[session_id, app] = (first, now if is_due else last)
        return is_due

    def waited_s(self, session_id: UUID, app: str) -> float:
        first, _ = self._requested_at[session_id, app]
        return asyncio.get_running_loop().time() - first

    def clear(self, session_id: UUID, app: str) -> None:
        self._requested_at.pop((session_id, app), None)


def _hosts(scope: Scope) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]


def is_allowed_origin(request: AppRequest) -> bool:
    if request.is_websocket:
        return allows_websocket(request.headers, request.own_origin)
    return allows_http(request.method, request.headers, request.own_origin)


def _page_of_state(access: AppAccess) -> status_pages.Page:
    if access.state is AppState.WAITING:
        return status_pages.waiting(access)
    if access.state is AppState.ENDED:
        return status_pages.ended(access)
    return status_pages.unknown_app(access)
