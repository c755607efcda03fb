"""Grants to apps: one-time codes, the cookies that they become, and whether the sign-in behind them still stands."""

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import transaction
from django.utils.crypto import constant_time_compare

from accounts.models import User
from accounts.tokens import hash_secret, new_secret
from common import audit, clock
from common.actors import Actor
from sessions_app.models import AppLogin, AppTicket
from sessions_app.selectors import Action, access_session, session_by_host_label
from sessions_app.tickets import CODE_LIFETIME_S, AppHost


def issue_app_ticket(*, actor: Actor, login_key: str, host: AppHost, state: str) -> str:
    """A one-time code for this host and state, bound to the actor's portal sign-in. Raises NotFound (absent or
    hidden), PermissionDenied."""
    found = session_by_host_label(host.session_label)
    session = access_session(actor, found.pk if found else UUID(int=0), Action.OPEN_APP)
    assert actor.user_id is not None, "a ticket is for a person"
    code = new_secret()

    with transaction.atomic():
        AppTicket.objects.create(
            code_hash=hash_secret(code),
            user_id=actor.user_id,
            login_key=login_key,
            session=session,
            app=host.app,
            state_hash=hash_secret(state),
            expires_at=clock.now() + timedelta(seconds=CODE_LIFETIME_S),
        )
        audit.record(actor=actor, action="sessions.open_app", target=session, changes={"app": host.app})
    return code


@transaction.atomic
def redeem_app_ticket(*, host: AppHost, code: str, state: str) -> str | None:
    """The cookie for a code; None unless it was issued for this host and state, is fresh and was never shown before.
    However it ends, the code is used up. A browser's earlier cookie of the same host ends."""
    ticket = AppTicket.objects.select_for_update().filter(code_hash=hash_secret(code)).first()
    if ticket is None:
        return None
    ticket.delete()
    is_for_host = (ticket.app, ticket.session.host_label) == (host.app, host.session_label)
    is_of_state = constant_time_compare(ticket.state_hash, hash_secret(state))
    if not (is_for_host and is_of_state and ticket.expires_at > clock.now()):
        return None

    grant = {
        "user_id": ticket.user_id,
        "login_key": ticket.login_key,
        "session_id": ticket.session_id,
        "app": ticket.app,
    }
    cookie = new_secret()
    AppLogin.objects.filter(**grant).delete()
    AppLogin.objects.create(cookie_hash=hash_secret(cookie), **grant)
    return cookie


def find_app_login(host: AppHost, cookie: str) -> AppLogin | None:
    """The grant behind a cookie of this host, if its person may still sign in. One query."""
    return (
        AppLogin.objects.select_related("user", "session")
        .filter(cookie_hash=hash_secret(cookie), app=host.app, session__host_label=host.session_label)
        .filter(user__is_active=True, user__domain__is_active=True)
        .first()
    )


def standing_logins(users_by_key: Collection[tuple[str, User]]) -> set[str]:
    """The keys of portal sign-ins that still stand: not signed out, not expired, same person, same password since.
    One query."""
    keys = [key for key, _ in users_by_key]
    rows = Session.objects.filter(session_key__in=keys, expire_date__gt=clock.now())
    stored = {row.session_key: row.get_decoded() for row in rows}
    return {key for key, user in users_by_key if key in stored and _is_of(stored[key], user)}


def _is_of(data: dict[str, object], user: User) -> bool:
    is_same_person = data.get(SESSION_KEY) == str(user.pk)
    return is_same_person and constant_time_compare(
        str(data.get(HASH_SESSION_KEY, "")), user.get_session_auth_hash()
    )
