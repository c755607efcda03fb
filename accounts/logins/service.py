"""Validates logins of long-lived connections (event streams, terminals, apps) and ends browser
logins.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth import HASH_SESSION_KEY
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from accounts.core import token_secrets
from accounts.credentials.keypairs import find_usable_keypair
from accounts.logins.impersonation import end_reason, find_impersonation
from accounts.logins.required_actions import Caller, find_required_actions, required_action
from accounts.logins.trusted_devices import forget_devices
from accounts.models import BrowserLogin, KeyPair, Membership, User
from accounts.selectors import get_acting_user
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import NotFound
from common.http.user_agent import device_name

USE_RECORD_INTERVAL = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Login:
    """Credential by which a request was accepted: a browser session or a keypair of `user_id`. For
    a keypair, `secret_hash` is the hash of the presented secret and `scope` the scope that it must
    keep ("" for none). `ip` is the client's address.
    """

    user_id: int
    session_key: str = ""
    keypair_id: int | None = None
    secret_hash: str = ""
    scope: str = ""
    ip: str = ""


def request_login(request: object) -> Login:
    """Return the login of an authenticated DRF or Django request."""
    user_id: int = request.user.pk  # type: ignore[attr-defined]
    keypair = getattr(request, "auth", None)
    if keypair is not None:
        return keypair_login(keypair, ip=_client_address(request))
    session_key = request.session.session_key or ""  # type: ignore[attr-defined]
    return Login(user_id=user_id, session_key=session_key, ip=_client_address(request))


def _client_address(request: object) -> str:
    django_request = getattr(request, "_request", request)
    return str(django_request.META.get("REMOTE_ADDR", ""))  # type: ignore[attr-defined]


def keypair_login(keypair: KeyPair, scope: str = "", *, ip: str) -> Login:
    """Return the login of a keypair that `authenticate_token` returned."""
    return Login(
        user_id=keypair.user_id,
        keypair_id=keypair.pk,
        secret_hash=keypair.shown_secret_hash,
        scope=scope,
        ip=ip,
    )


def authenticate_token(token: str) -> KeyPair | None:
    """Return the valid keypair of this token with its user, or None. One query."""
    halves = token_secrets.split_token(token)
    keypair = find_usable_keypair(halves[0]) if halves else None
    if halves is None or keypair is None:
        return None
    shown = token_secrets.hash_secret(halves[1])
    if not any(constant_time_compare(shown, valid) for valid in _valid_secrets(keypair)):
        return None
    keypair.shown_secret_hash = shown
    return keypair


def record_use(keypair: KeyPair, ip: str) -> None:
    """Record time and address of the last use, at most once per USE_RECORD_INTERVAL."""
    now = clock.now()
    if keypair.last_used_at is None or now - keypair.last_used_at > USE_RECORD_INTERVAL:
        is_due = Q(last_used_at=None) | Q(last_used_at__lt=now - USE_RECORD_INTERVAL)
        used = KeyPair.objects.filter(is_due, pk=keypair.pk)
        used.update(last_used_at=now, last_used_ip=ip or None)


def valid_logins(logins: Collection[Login]) -> dict[Login, User]:
    """Return the logins that are still valid, with their users. Three queries for any number of
    logins, and one if a domain requires second factors.

    A login ends by sign-out, a changed password, a deleted or expired token, a closed account or
    domain, and by a required action (`accounts.logins.required_actions`). A browser in which
    another user impersonates the person (`accounts.logins.impersonation`) counts as a login of the
    person and ends with the impersonation.
    """
    users = User.objects.select_related("domain").in_bulk({login.user_id for login in logins})
    sessions = _sessions({login.session_key for login in logins if login.session_key})
    keypairs = KeyPair.objects.in_bulk({login.keypair_id for login in logins if login.keypair_id})
    live = {}
    for login in logins:
        user, browser = users.get(login.user_id), sessions.get(login.session_key)
        caller = _find_caller(login, user=user, browser=browser, keypair=keypairs.get(login.keypair_id or 0))
        if user is not None and caller is not None:
            live[login] = (user, caller)
    actions = find_required_actions({caller for _user, caller in live.values()})
    return {login: user for login, (user, caller) in live.items() if caller not in actions}


def is_login_valid(
    login: Login,
    *,
    user: User,
    browser: BrowserLogin | None,
    keypair: KeyPair | None,
    has_second_factor: bool,
) -> bool:
    """Return true if one login is still valid, judged by rows already read: `browser` with user and
    impersonation, each user with the domain. `has_second_factor` refers to the user signed in
    there. No query.
    """
    caller = _find_caller(login, user=user, browser=browser, keypair=keypair)
    return caller is not None and required_action(caller, has_second_factor=has_second_factor) is None


def _find_caller(
    login: Login, *, user: User | None, browser: BrowserLogin | None, keypair: KeyPair | None
) -> Caller | None:
    """Return the caller to whom required actions apply; None if the login has ended."""
    if user is None or not _is_open(user):
        return None
    is_program = keypair is not None and _is_keypair_valid(login, keypair)
    caller = user if is_program else _browser_user(login, browser)
    return (caller, login.ip, login.keypair_id is not None) if caller is not None else None


def _is_open(user: User) -> bool:
    return bool(user.is_active and user.domain.is_active)


def _browser_user(login: Login, row: BrowserLogin | None) -> User | None:
    """Return the user of that browser if the login is theirs or of whom they impersonate."""
    user = row.user if row is not None and row.expire_date > clock.now() else None
    if row is None or user is None or not _is_open(user):
        return None
    auth_hash = row.get_decoded().get(HASH_SESSION_KEY, "")
    if not constant_time_compare(auth_hash, user.get_session_auth_hash()):
        return None
    found = find_impersonation(row)
    is_seen = found is not None and found.person_id == login.user_id and not end_reason(found, user)
    return user if user.pk == login.user_id or is_seen else None


def active_memberships(user_ids: Collection[int], project_ids: Collection[int]) -> set[tuple[int, int]]:
    """Return (user id, project id) of the given users and projects where the user may use the
    project now. One query.
    """
    memberships = _active_memberships().filter(user_id__in=user_ids, project_id__in=project_ids)
    return set(memberships.values_list("user_id", "project_id"))


def has_active_membership(user: str, project: str) -> Exists:
    """Query expression: the user and project of these fields of the row belong together now."""
    return Exists(_active_memberships().filter(user_id=OuterRef(user), project_id=OuterRef(project)))


def _active_memberships() -> QuerySet[Membership]:
    return Membership.objects.filter(project__is_active=True, project__domain__is_active=True)


def visible_logins(actor: Actor) -> QuerySet[BrowserLogin]:
    """The actor's browser logins, last used first."""
    logins = live_browser_logins(actor.user_id or 0).select_related("user")
    return logins.order_by(F("seen_at").desc(nulls_last=True), "session_key")


def live_browser_logins(user_id: int) -> QuerySet[BrowserLogin]:
    return BrowserLogin.objects.filter(user_id=user_id, expire_date__gt=clock.now())


def end_login(*, actor: Actor, login_id: str) -> None:
    """Sign the actor out of one browser; its open connections end within seconds. Raises NotFound."""
    row = next((row for row in visible_logins(actor) if row.public_id == login_id), None)
    if row is None:
        raise NotFound(_("There is no such login among yours."))
    with transaction.atomic():
        audit_log.record(
            actor=actor,
            action="accounts.end_login",
            target=row.user,
            changes={"ip": row.ip, "device": device_name(row.user_agent)},
        )
        row.delete()


@transaction.atomic
def end_other_logins(*, actor: Actor, except_key: str) -> int:
    """Sign the actor out of all browsers except the one with session key `except_key`, and forget all
    trusted devices. Returns the number of ended logins.
    """
    count = end_logins(actor.user_id or 0, except_key=except_key)
    forget_devices(actor.user_id or 0)
    audit_log.record(
        actor=actor,
        action="accounts.end_other_logins",
        target=get_acting_user(actor),
        changes={"logins": count},
    )
    return count


def end_logins(user_id: int, *, except_key: str = "") -> int:
    """Sign a user out of all browsers except the one with session key `except_key`, so that reopening the
    account does not revive a login. Returns the number of ended logins.
    """
    return BrowserLogin.objects.filter(user_id=user_id).exclude(session_key=except_key).delete()[0]


def _sessions(keys: Collection[str]) -> dict[str, BrowserLogin]:
    """Return browser logins by key, with their users and impersonated users."""
    return BrowserLogin.objects.select_related("user__domain", "viewing__person__domain").in_bulk(keys)


def _is_keypair_valid(login: Login, keypair: KeyPair) -> bool:
    if not keypair.is_usable:
        return False
    has_secret = not login.secret_hash or login.secret_hash in _valid_secrets(keypair)
    return has_secret and (not login.scope or login.scope in keypair.scopes)


def _valid_secrets(keypair: KeyPair) -> tuple[str, ...]:
    """Return the hashes of the secrets that are valid now."""
    if keypair.old_secret_until is None or keypair.old_secret_until <= clock.now():
        return (keypair.secret_hash,)
    return keypair.secret_hash, keypair.old_secret_hash
