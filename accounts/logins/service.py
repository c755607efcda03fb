"""Logins that outlast one request: event streams, terminals and apps hold on to one and ask again and again."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth import HASH_SESSION_KEY
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from accounts.core import token_secrets
from accounts.credentials.keypairs import usable_keypair
from accounts.logins.impersonation import viewing_in, why_over
from accounts.logins.required_actions import Caller, demand_of, demands_on
from accounts.logins.trusted_devices import forget_places
from accounts.models import BrowserLogin, KeyPair, Membership, User
from accounts.selectors import user_of
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import NotFound
from common.http.user_agent import device_of

NOTE_USE_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Login:
    """What a request was let in by: a browser session or a keypair of `user_id`; of a keypair, the hash of the secret
    that was shown, and the scope that it must keep ("": none in particular); from where."""

    user_id: int
    session_key: str = ""
    keypair_id: int | None = None
    secret_hash: str = ""
    scope: str = ""
    ip: str = ""


def login_of(request: object) -> Login:
    """The login of a signed-in request of DRF or of Django."""
    user_id: int = request.user.pk  # type: ignore[attr-defined]
    keypair = getattr(request, "auth", None)
    if keypair is not None:
        return login_by(keypair, ip=_address_of(request))
    session_key = request.session.session_key or ""  # type: ignore[attr-defined]
    return Login(user_id=user_id, session_key=session_key, ip=_address_of(request))


def _address_of(request: object) -> str:
    django_request = getattr(request, "_request", request)
    return str(django_request.META.get("REMOTE_ADDR", ""))  # type: ignore[attr-defined]


def login_by(keypair: KeyPair, scope: str = "", *, ip: str) -> Login:
    """Of a keypair that `keypair_of_token` found."""
    return Login(
        user_id=keypair.user_id,
        keypair_id=keypair.pk,
        secret_hash=keypair.shown_secret_hash,
        scope=scope,
        ip=ip,
    )


def keypair_of_token(token: str) -> KeyPair | None:
    """The keypair, with its user, that this token opens now. One query."""
    halves = token_secrets.split_token(token)
    keypair = usable_keypair(halves[0]) if halves else None
    if halves is None or keypair is None:
        return None
    shown = token_secrets.hash_secret(halves[1])
    if not any(constant_time_compare(shown, valid) for valid in _valid_secrets(keypair)):
        return None
    keypair.shown_secret_hash = shown
    return keypair


def note_use(keypair: KeyPair, ip: str) -> None:
    """When and from where it was used last; written at most once in NOTE_USE_EVERY, also where many use it at once."""
    now = clock.now()
    if keypair.last_used_at is None or now - keypair.last_used_at > NOTE_USE_EVERY:
        is_due = Q(last_used_at=None) | Q(last_used_at__lt=now - NOTE_USE_EVERY)
        used = KeyPair.objects.filter(is_due, pk=keypair.pk)
        used.update(last_used_at=now, last_used_ip=ip or None)


def live_logins(logins: Collection[Login]) -> dict[Login, User]:
    """Those that would still be let in, with their users. Three queries, any number of logins, and one where a domain asks
    for second factors.

    Signing out, a changed password, a deleted or expired token, a closed account or domain all end one; so does what is
    demanded of the person before anything else (`accounts.logins.required_actions`). A browser in which somebody looks as the person
    (`accounts.logins.impersonation`) is a login of the person, too, and ends with what ends that.
    """
    users = User.objects.select_related("domain").in_bulk({login.user_id for login in logins})
    sessions = _sessions({login.session_key for login in logins if login.session_key})
    keypairs = KeyPair.objects.in_bulk({login.keypair_id for login in logins if login.keypair_id})
    live = {}
    for login in logins:
        user, browser = users.get(login.user_id), sessions.get(login.session_key)
        caller = _caller_by(login, user=user, browser=browser, keypair=keypairs.get(login.keypair_id or 0))
        if user is not None and caller is not None:
            live[login] = (user, caller)
    demands = demands_on({caller for _user, caller in live.values()})
    return {login: user for login, (user, caller) in live.items() if caller not in demands}


def lets_in(
    login: Login,
    *,
    user: User,
    browser: BrowserLogin | None,
    keypair: KeyPair | None,
    has_second_factor: bool,
) -> bool:
    """The same of one login, by rows that were read for it: `browser` with its user and viewing, each person with the domain;
    whoever is signed in there has a second factor or not. No query."""
    caller = _caller_by(login, user=user, browser=browser, keypair=keypair)
    return caller is not None and demand_of(caller, has_second_factor=has_second_factor) is None


def _caller_by(
    login: Login, *, user: User | None, browser: BrowserLogin | None, keypair: KeyPair | None
) -> Caller | None:
    """Who has to do what is demanded before anything else; None where the login has ended."""
    if user is None or not _is_open(user):
        return None
    is_program = keypair is not None and _still_opens(login, keypair)
    caller = user if is_program else _signed_in_there(login, browser)
    return (caller, login.ip, login.keypair_id is not None) if caller is not None else None


def _is_open(user: User) -> bool:
    return bool(user.is_active and user.domain.is_active)


def _signed_in_there(login: Login, row: BrowserLogin | None) -> User | None:
    """Who is signed in in that browser, if that lets this login in: the person, or who looks as the person."""
    user = row.user if row is not None and row.expire_date > clock.now() else None
    if row is None or user is None or not _is_open(user):
        return None
    auth_hash = row.get_decoded().get(HASH_SESSION_KEY, "")
    if not constant_time_compare(auth_hash, user.get_session_auth_hash()):
        return None
    found = viewing_in(row)
    is_seen = found is not None and found.person_id == login.user_id and not why_over(found, user)
    return user if user.pk == login.user_id or is_seen else None


def standing_memberships(user_ids: Collection[int], project_ids: Collection[int]) -> set[tuple[int, int]]:
    """(user id, project id) of those of them who may use those of them now. One query."""
    memberships = _standing().filter(user_id__in=user_ids, project_id__in=project_ids)
    return set(memberships.values_list("user_id", "project_id"))


def has_standing_membership(user: str, project: str) -> Exists:
    """The same as part of a query on rows that have these fields."""
    return Exists(_standing().filter(user_id=OuterRef(user), project_id=OuterRef(project)))


def _standing() -> QuerySet[Membership]:
    return Membership.objects.filter(project__is_active=True, project__domain__is_active=True)


def visible_logins(actor: Actor) -> QuerySet[BrowserLogin]:
    """The browsers in which the actor is signed in, the last used first; nobody sees another's."""
    logins = live_browser_logins(actor.user_id or 0).select_related("user")
    return logins.order_by(F("seen_at").desc(nulls_last=True), "session_key")


def live_browser_logins(user_id: int) -> QuerySet[BrowserLogin]:
    return BrowserLogin.objects.filter(user_id=user_id, expire_date__gt=clock.now())


def end_login(*, actor: Actor, login_id: str) -> None:
    """Sign one of the actor's browsers out; what it holds open ends within seconds. Raises NotFound."""
    row = next((row for row in visible_logins(actor) if row.public_id == login_id), None)
    if row is None:
        raise NotFound(_("There is no such login among yours."))
    with transaction.atomic():
        audit_log.record(
            actor=actor,
            action="accounts.end_login",
            target=row.user,
            changes={"ip": row.ip, "device": device_of(row.user_agent)},
        )
        row.delete()


@transaction.atomic
def end_other_logins(*, actor: Actor, but: str) -> int:
    """Sign the actor out of every browser but the one with this key (of a session), and know none as theirs until they sign in
    there again; how many they were."""
    count = end_logins(actor.user_id or 0, but=but)
    forget_places(actor.user_id or 0)
    audit_log.record(
        actor=actor, action="accounts.end_other_logins", target=user_of(actor), changes={"logins": count}
    )
    return count


def end_logins(user_id: int, *, but: str = "") -> int:
    """Sign this person out of every browser, so that no later change of the account brings one back; how many they were.
    `but`: the key of one that stays."""
    return BrowserLogin.objects.filter(user_id=user_id).exclude(session_key=but).delete()[0]


def _sessions(keys: Collection[str]) -> dict[str, BrowserLogin]:
    """By their keys, with who is signed in and whom they look as."""
    return BrowserLogin.objects.select_related("user__domain", "viewing__person__domain").in_bulk(keys)


def _still_opens(login: Login, keypair: KeyPair) -> bool:
    is_over = keypair.expires_at is not None and keypair.expires_at <= clock.now()
    if is_over or not keypair.is_active:
        return False
    has_secret = not login.secret_hash or login.secret_hash in _valid_secrets(keypair)
    return has_secret and (not login.scope or login.scope in keypair.scopes)


def _valid_secrets(keypair: KeyPair) -> tuple[str, ...]:
    """Hashes of those that it opens to now."""
    if keypair.old_secret_until is None or keypair.old_secret_until <= clock.now():
        return (keypair.secret_hash,)
    return keypair.secret_hash, keypair.old_secret_hash
