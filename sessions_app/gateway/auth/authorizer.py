"""Implement the gateway's access checks on the database, and hold the process's registry of open
connections.
"""

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from channels.db import database_sync_to_async
from django.db import Error as DatabaseError

from accounts.logins.service import Login, active_memberships, is_login_valid, valid_logins
from accounts.tenancy.user_import import user_actor
from agents.relays.routes import route_to
from common.errors import BerthError
from sessions_app.app_services.start import start_app
from sessions_app.core.app_address import AppEndpoint, port_named
from sessions_app.core.states import Status
from sessions_app.gateway.auth import app_credentials
from sessions_app.gateway.proxy.access_types import AccessUnknown, AppAccess, AppState, Presence
from sessions_app.gateway.proxy.open_connections import OpenConnections
from sessions_app.models import ComputeSession, Kernel
from sessions_app.selectors import Action, may
from transport.proxy import Target

P = ParamSpec("P")
T = TypeVar("T")

# A slow query counts as a database that does not answer.
DATABASE_PATIENCE_S = 8.0

_ENDING = frozenset((Status.TERMINATING, Status.TERMINATED, Status.CANCELLED, Status.ERROR))


class DjangoAuthorizer:
    """Implementation of `access_types.Authorizer`; runs each call in a worker thread."""

    async def admit(self, endpoint: AppEndpoint, secret: str, ip: str) -> AppAccess | None:
        return await in_database(find_access, endpoint, secret, ip)

    async def redeem(self, endpoint: AppEndpoint, code: str, states: tuple[str, ...]) -> str | None:
        return await in_database(app_credentials.redeem_app_code, endpoint=endpoint, code=code, states=states)

    async def still_present(self, presences: frozenset[Presence]) -> frozenset[Presence]:
        return await in_database(find_still_present, presences)

    async def start_app(self, session_id: UUID, app: str) -> str:
        return await in_database(_start_app, session_id, app)


@cache
def authorizer() -> DjangoAuthorizer:
    return DjangoAuthorizer()


@cache
def open_connections() -> OpenConnections:
    """Return the process-wide registry, shared by apps and terminals so that limits and revocation
    apply to both.
    """
    return OpenConnections(authorizer().still_present)


async def in_database(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run an ORM function in a thread, in parallel with Django's views. Raises AccessUnknown if the
    database does not answer.
    """
    call: Any = database_sync_to_async(function, thread_sensitive=False)
    try:
        async with asyncio.timeout(DATABASE_PATIENCE_S):
            return await call(*args, **kwargs)  # type: ignore[no-any-return]
    except (DatabaseError, TimeoutError) as exc:
        raise AccessUnknown from exc


def find_access(endpoint: AppEndpoint, secret: str, ip: str) -> AppAccess | None:
    """Return the access that a cookie or token grants; None if the grant, the sign-in or the
    permission has ended. One query.
    """
    grant = app_credentials.find_app_grant(endpoint, secret)
    if grant is None or not _still_opens(grant, login := app_credentials.login_of_grant(grant, ip)):
        return None
    return describe_app(grant, Presence(login, grant.session_id, Action.OPEN_APP.value))


def _still_opens(grant: Any, login: Login) -> bool:
    """Return True if the sign-in of the grant is valid and its user may open the app, with the same
    result as `access_session`: only owners may open apps, and owners see their sessions.
    """
    is_signed_in = is_login_valid(
        login,
        user=grant.user,
        browser=grant.browser,
        keypair=grant.keypair,
        has_second_factor=grant.has_second_factor,
    )
    is_owner = may(user_actor(grant.user), grant.session, Action.OPEN_APP)
    return bool(is_signed_in and is_owner and grant.owner_stands)


def describe_app(grant: Any, presence: Presence) -> AppAccess:
    """Return state and address of the app for a grant of `find_app_grant`. No query."""
    session, kernel, app = grant.session, grant.main_kernel, grant.app
    declared: dict[str, Any] = next((found for found in session.image.apps if found["name"] == app), {})
    port = declared.get("port") or port_named(app)
    command = declared.get("command") or []
    target = _target_of(kernel, port)
    return AppAccess(
        presence=presence,
        state=_state_of(session, port, target),
        session_name=session.name,
        title=declared.get("title") or (f"Port {port}" if port else app),
        app=app,
        status=session.status,
        target=target,
        app_token=session.app_token if any("{token}" in word for word in command) else "",
        is_startable=bool(command),
        known_apps=tuple(found["name"] for found in session.image.apps),
    )


def find_still_present(presences: frozenset[Presence]) -> frozenset[Presence]:
    """Return the presences whose sign-in or token, permission, membership and running session are
    still valid. 5 queries for any number.
    """
    users = valid_logins({presence.login for presence in presences})
    sessions = ComputeSession.objects.filter(status=Status.RUNNING).in_bulk({p.session_id for p in presences})
    known = [p for p in presences if p.login in users and p.session_id in sessions]
    members = active_memberships(
        {p.login.user_id for p in known}, {sessions[p.session_id].project_id for p in known}
    )
    return frozenset(
        p
        for p in known
        if may(user_actor(users[p.login]), sessions[p.session_id], Action(p.action))
        and (p.login.user_id, sessions[p.session_id].project_id) in members
    )


def is_ending(session_id: UUID) -> bool:
    """Return True if the session is terminating or has ended. One query."""
    return ComputeSession.objects.filter(pk=session_id, status__in=_ENDING).exists()


def _state_of(session: ComputeSession, port: int | None, target: Target | None) -> AppState:
    if Status(session.status) in _ENDING:
        return AppState.ENDED
    if port is None:
        return AppState.UNKNOWN
    return AppState.OPEN if session.is_running and target is not None else AppState.WAITING


def _target_of(kernel: Kernel, port: int | None) -> Target | None:
    return None if port is None else target_of(kernel, port)


def target_of(kernel: Kernel, port: int) -> Target | None:
    """Return a port of a container; None if it has no address, or its machine is not reached yet. No
    query if the kernel was loaded with `agent__relay`.
    """
    if not kernel.address:
        return None
    route = route_to(kernel.placed_agent, kernel.address)
    if route is None:
        return None
    return Target(host=kernel.address, port=port, owner=kernel.container_name, route=route)


def _start_app(session_id: UUID, app: str) -> str:
    try:
        start_app(session_id, app)
    except BerthError as exc:
        return f"{exc.message} {exc.hint}".strip()
    return ""
