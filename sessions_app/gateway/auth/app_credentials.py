"""Issue and redeem app grants: one-time codes, the cookies they are exchanged for, and tokens for
programs.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, FilteredRelation, Q
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from accounts.core.token_secrets import hash_secret, new_secret
from accounts.logins.required_actions import has_second_factor
from accounts.logins.service import Login, has_active_membership
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import NotFound
from common.token_scopes import TokenScope
from sessions_app.core.app_address import (
    CODE_LIFETIME_S,
    TOKEN_PREFIX,
    AppEndpoint,
    AppHost,
    AppPort,
    is_app_name,
)
from sessions_app.gateway.proxy.app_ports import assigned_port
from sessions_app.models import AppGrant, AppLogin
from sessions_app.selectors import Action, access_session, session_by_host_label

TOKEN_LIFETIME = timedelta(hours=1)
_GRANT_RELATIONS = (
    "user__domain", "browser__user__domain", "browser__viewing__person__domain", "keypair", "session__image",
    "main_kernel__agent__relay",
)  # fmt: skip


def issue_app_code(*, actor: Actor, login_key: str, endpoint: AppEndpoint, state: str) -> str:
    """Issue a one-time code for an app endpoint.

    It is bound to the actor's portal sign-in and to the browser that holds the secret whose hash is
    `state`. Raises NotFound (absent or hidden), PermissionDenied.
    """
    app, session_id = _app_and_session(endpoint)
    session = access_session(actor, session_id, Action.OPEN_APP)
    assert actor.user_id is not None, "a ticket is for a person"
    code = new_secret()

    with transaction.atomic():
        AppGrant.objects.create(
            code_hash=hash_secret(code),
            user_id=actor.user_id,
            login_key=login_key,
            session=session,
            app=app,
            app_port=endpoint_port(endpoint),
            state_hash=state,
            expires_at=clock.now() + timedelta(seconds=CODE_LIFETIME_S),
        )
        changes = {"app": app} | ({"port": endpoint.number} if isinstance(endpoint, AppPort) else {})
        audit_log.record(actor=actor, action="sessions.open_app", target=session, changes=changes)
    return code


@transaction.atomic
def redeem_app_code(*, endpoint: AppEndpoint, code: str, states: Collection[str]) -> str | None:
    """Exchange a one-time code for a cookie. Returns None unless the code was issued for this
    endpoint and one of these states, is not expired and was never used. The code is deleted in any
    case. An earlier cookie of the same sign-in and endpoint is revoked.
    """
    ticket = AppGrant.objects.select_for_update().filter(code_hash=hash_secret(code)).first()
    if ticket is None:
        return None
    ticket.delete()
    if (ticket.app, ticket.session_id, ticket.app_port) != (
        *_app_and_session(endpoint),
        endpoint_port(endpoint),
    ):
        return None
    is_of_browser = any(constant_time_compare(ticket.state_hash, state) for state in states)
    if not is_of_browser or ticket.expires_at <= clock.now():
        return None

    grant = {
        "user_id": ticket.user_id,
        "login_key": ticket.login_key,
        "session_id": ticket.session_id,
        "app": ticket.app,
        "app_port": ticket.app_port,
    }
    cookie = new_secret()
    AppLogin.objects.filter(**grant).delete()
    AppLogin.objects.create(secret_hash=hash_secret(cookie), **grant)
    return cookie


def issue_app_token(*, actor: Actor, login: Login, session_id: UUID, app: str) -> tuple[str, datetime]:
    """Issue a token for a program to access one app, and return it with its expiry.

    It ends after `TOKEN_LIFETIME`, or with the sign-in or token that requested it. Raises NotFound,
    PermissionDenied.
    """
    session = access_session(actor, session_id, Action.OPEN_APP)
    assert actor.user_id is not None, "a token is for a person"
    if not is_app_name(app):
        raise NotFound(_("The session has no such app."))
    token, expires_at = new_secret(), clock.now() + TOKEN_LIFETIME
    origin: dict[str, Any] = (
        {"keypair_id": login.keypair_id, "keypair_secret": login.secret_hash}
        if login.keypair_id
        else {"login_key": login.session_key}
    )

    with transaction.atomic():
        AppLogin.objects.create(
            secret_hash=hash_secret(token),
            user_id=actor.user_id,
            session=session,
            app=app,
            expires_at=expires_at,
            **origin,
        )
        audit_log.record(
            actor=actor, action="sessions.open_app", target=session, changes={"app": app, "for": "a program"}
        )
    return TOKEN_PREFIX + token, expires_at


def find_app_grant(endpoint: AppEndpoint, secret: str) -> AppLogin | None:
    """Return the unexpired grant of a cookie or token of this endpoint, or None. Loads everything
    that the access decision needs: sign-in, session, image, container (`main_kernel`), membership.
    One query.
    """
    logins = AppLogin.objects.annotate(
        main_kernel=FilteredRelation(
            "session__kernels", condition=Q(session__kernels__role="main", session__kernels__index=1)
        ),
        owner_stands=has_active_membership("session__owner_id", "session__project_id"),
        has_second_factor=has_second_factor("browser__user_id"),
    )
    logins = logins.select_related(*_GRANT_RELATIONS)
    logins = logins.filter(secret_hash=hash_secret(secret), app_port=endpoint_port(endpoint))
    logins = logins.filter(Q(expires_at=None) | Q(expires_at__gt=clock.now()))
    if isinstance(endpoint, AppHost):
        return logins.filter(app=endpoint.app, session__host_label=endpoint.session_label).first()
    # The port may have been assigned to another app since.
    return logins.filter(
        session__assigned_ports__port=endpoint.number, session__assigned_ports__app=F("app")
    ).first()


def login_of_grant(row: AppLogin, ip: str) -> Login:
    """Return the sign-in or token from which the grant was issued, as used from `ip`."""
    if row.keypair_id is None:
        return Login(user_id=row.user_id, session_key=row.login_key, ip=ip)
    return Login(row.user_id, "", row.keypair_id, row.keypair_secret, TokenScope.SESSIONS.value, ip)


def endpoint_port(endpoint: AppEndpoint) -> int:
    return endpoint.number if isinstance(endpoint, AppPort) else 0


def _app_and_session(endpoint: AppEndpoint) -> tuple[str, UUID]:
    """Return (app, session id) of an endpoint; the nil UUID if it leads to no session."""
    if isinstance(endpoint, AppPort):
        row = assigned_port(endpoint)
        return (row.app, row.session_id) if row else ("", UUID(int=0))
    session = session_by_host_label(endpoint.session_label)
    return endpoint.app, session.pk if session else UUID(int=0)
