"""Creates, changes, rotates and deletes API keypairs, and selects those visible to an actor."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Case, Q, QuerySet, When
from django.db.models.functions import Least
from django.utils.translation import gettext as _

from accounts.admission_gate import precede_admissions
from accounts.core import token_secrets
from accounts.core.authorization import Action
from accounts.core.limits import Limit, refused_limits
from accounts.limits import actor_user_scope, check_limits
from accounts.models import KeyPair, User
from accounts.selectors import access_user, get_acting_user
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import InvalidInput, NotAuthenticated, NotFound, PermissionDenied, invalid_field
from common.token_scopes import EVERY_TOKEN, Scopes, TokenScope, in_order, may

FULL_SCOPES = frozenset({TokenScope.SESSIONS, TokenScope.FOLDERS, TokenScope.ADMIN})


@transaction.atomic
def create_keypair(
    *, actor: Actor, name: str, scopes: Collection[str] | None = None, expires_at: datetime | None = None
) -> tuple[KeyPair, str]:
    """Create a keypair of the actor and return it with its token, which is shown only once.
    `scopes` defaults to all that the actor has. A keypair created with a token expires no later
    than that token. Raises InvalidInput, PermissionDenied, LimitExceeded.
    """
    user = get_acting_user(actor)
    name = _check_name(name)
    if expires_at is not None and expires_at <= clock.now():
        raise InvalidInput(
            _("The token would have expired already."), fields={"expires_at": [_("Is in the past.")]}
        )
    User.objects.select_for_update().get(pk=user.pk)
    actor_token = acting_token(actor)
    wanted = _check_scopes((actor_token.scopes if actor_token else EVERY_TOKEN) if scopes is None else scopes)
    _require_within_rights(actor_token, wanted)
    ends = [
        instant
        for instant in (expires_at, actor_token.expires_at if actor_token else None)
        if instant is not None
    ]
    check_limits(refused_limits(actor_user_scope(actor), {Limit.KEYPAIRS.value: 1}))
    secret = token_secrets.new_secret()

    keypair = KeyPair.objects.create(
        user=user,
        name=name,
        access_key=token_secrets.new_access_key(),
        secret_hash=token_secrets.hash_secret(secret),
        scopes=wanted,
        expires_at=min(ends, default=None),
    )
    changes = {"scopes": wanted, "expires_at": keypair.expires_at and keypair.expires_at.isoformat()}
    audit_log.record(actor=actor, action="accounts.create_keypair", target=keypair, changes=changes)
    return keypair, f"{keypair.access_key}.{secret}"


@transaction.atomic
def update_keypair(
    *,
    actor: Actor,
    keypair_id: int,
    name: str | None = None,
    scopes: Collection[str] | None = None,
    is_active: bool | None = None,
) -> KeyPair:
    """Set name or scopes (None keeps them) or suspend the keypair with `is_active` False.
    Connections that it may no longer open end within seconds. Raises NotFound, InvalidInput,
    PermissionDenied.
    """
    keypair, actor_token = _lock_keypair(actor, keypair_id), acting_token(actor)
    _require_admin_scope(actor_token)
    wanted: dict[str, Any] = {
        "name": keypair.name if name is None else _check_name(name),
        "scopes": keypair.scopes if scopes is None else _check_scopes(scopes),
        "is_active": keypair.is_active if is_active is None else is_active,
    }
    changes = audit_log.changed({field: getattr(keypair, field) for field in wanted}, wanted)
    if not {"scopes", "is_active"}.isdisjoint(changes) and wanted["is_active"]:
        _require_within_rights(actor_token, wanted["scopes"], keypair)

    for field in changes:
        setattr(keypair, field, wanted[field])
    if changes:
        keypair.save(update_fields=list(changes))
        audit_log.record(actor=actor, action="accounts.update_keypair", target=keypair, changes=changes)
    return keypair


@transaction.atomic
def rotate_keypair(*, actor: Actor, keypair_id: int, grace: timedelta = timedelta()) -> tuple[KeyPair, str]:
    """Create a new secret and return the keypair with its token, which is shown only once. The
    previous secret works for `grace` and connections opened with it end with it; older secrets end
    at once. Raises NotFound, InvalidInput, PermissionDenied.
    """
    if not timedelta() <= grace <= token_secrets.LONGEST_GRACE:
        sentence = _("The old secret may go on working for 0 to {hours} hours.").format(
            hours=int(token_secrets.LONGEST_GRACE / timedelta(hours=1))
        )
        raise InvalidInput.at("grace_hours", sentence)
    keypair, actor_token = _lock_keypair(actor, keypair_id), acting_token(actor)
    if actor_token is not None and actor_token.pk != keypair.pk:
        _require_admin_scope(actor_token)
        _require_within_rights(actor_token, keypair.scopes, keypair)
    secret = token_secrets.new_secret()

    keypair.old_secret_hash = keypair.secret_hash if grace else ""
    keypair.old_secret_until = clock.now() + grace if grace else None
    keypair.secret_hash = token_secrets.hash_secret(secret)
    keypair.save(update_fields=["secret_hash", "old_secret_hash", "old_secret_until"])
    changes = {"grace_hours": grace / timedelta(hours=1)}
    audit_log.record(actor=actor, action="accounts.rotate_keypair", target=keypair, changes=changes)
    return keypair, f"{keypair.access_key}.{secret}"


@transaction.atomic
def delete_keypair(*, actor: Actor, keypair_id: int) -> None:
    """Delete a keypair. A token may always delete itself. Raises NotFound, PermissionDenied."""
    keypair, actor_token = _lock_keypair(actor, keypair_id), acting_token(actor)
    if actor_token is not None and actor_token.pk != keypair.pk:
        _require_admin_scope(actor_token)
    audit_log.record(actor=actor, action="accounts.delete_keypair", target=keypair)
    keypair.delete()


@transaction.atomic
def revoke_keypair(*, actor: Actor, user_id: int, keypair_id: int) -> None:
    """Delete a token of a user whose account the actor may edit. Raises NotFound, PermissionDenied."""
    access_user(actor, user_id, Action.EDIT)
    keypair = access_user_keypair(actor, user_id, keypair_id)
    precede_admissions()
    audit_log.record(actor=actor, action="accounts.delete_keypair", target=keypair)
    keypair.delete()


def _lock_keypair(actor: Actor, keypair_id: int) -> KeyPair:
    """Lock and return the keypair for a change, before admissions that begin later. Raises NotFound."""
    access_keypair(actor, keypair_id)
    precede_admissions()
    KeyPair.objects.select_for_update().filter(pk=keypair_id).first()
    return access_keypair(actor, keypair_id)


def acting_token(actor: Actor) -> KeyPair | None:
    """Return the token by which the actor acts, or None. Raises NotAuthenticated if it was deleted."""
    if actor.keypair_id is None:
        return None
    actor_token = visible_keypairs(actor).filter(pk=actor.keypair_id).first()
    if actor_token is None:
        raise NotAuthenticated(_("This token is unknown, revoked or expired."))
    return actor_token


def require_full_token(actor: Actor, *, missing: str, bound: str, hint: str) -> KeyPair | None:
    """Require a token with all scopes and no policy, for actions that outlive the token and grant
    everything its user may do. Returns the token, or None without one. Raises PermissionDenied with
    `missing`, which has the placeholder {scopes}, or with `bound` for a token with a policy.
    """
    token = acting_token(actor)
    if token is None:
        return None
    if lacking := FULL_SCOPES - set(token.scopes):
        raise PermissionDenied(
            missing.format(scopes=", ".join(in_order(lacking))), hint=hint, code="scope_missing"
        )
    if token.policy_id is not None:
        raise PermissionDenied(bound, hint=hint)
    return token


def full_token_filter(token: str, at: datetime | None = None) -> Q:
    """Filter for rows whose creating token (field name `token`) still satisfies
    `require_full_token` at an instant, default now. A rotated secret changes nothing.
    """
    is_unexpired = Q(**{f"{token}__expires_at": None}) | Q(**{f"{token}__expires_at__gt": at or clock.now()})
    conditions = {"is_active": True, "policy": None, "scopes__contains": sorted(FULL_SCOPES)}
    return is_unexpired & Q(**{f"{token}__{name}": value for name, value in conditions.items()})


def _require_admin_scope(actor_token: KeyPair | None) -> None:
    if actor_token is not None and TokenScope.ADMIN not in actor_token.scopes:
        raise PermissionDenied(
            _("This token may not change other tokens: it has no scope “{scope}”.").format(
                scope=TokenScope.ADMIN.value
            ),
            hint=_("Do it on your page of keys, or with another token."),
            code="scope_missing",
        )


def _require_within_rights(
    actor_token: KeyPair | None, scopes: Collection[str], target: KeyPair | None = None
) -> None:
    """Require that a token creates none with wider rights: no further scope, no fewer policies and,
    for an existing keypair, no later expiry. Raises PermissionDenied.
    """
    if actor_token is None or (
        target is not None and target.pk == actor_token.pk and set(scopes) <= set(actor_token.scopes)
    ):
        return
    if actor_token.policy_id is not None:
        raise PermissionDenied(
            _("A token with a policy of its own creates no tokens: they would not be bound by it."),
            hint=_("Create it on your profile, or with another token."),
        )
    if beyond := set(scopes) - set(actor_token.scopes):
        sentence = _("Your token does not have these scopes itself: {scopes}.").format(
            scopes=", ".join(in_order(beyond))
        )
        raise PermissionDenied.at("scopes", sentence, code="scope_missing")
    if (
        target is not None
        and actor_token.expires_at
        and (target.expires_at is None or target.expires_at > actor_token.expires_at)
    ):
        raise PermissionDenied(
            _("This token ends later than the one that you use."),
            hint=_("Do it on your page of keys, or with another token."),
        )


def _check_name(name: str) -> str:
    with invalid_field("name"):
        return token_secrets.check_token_name(name)


def _check_scopes(scopes: Collection[str]) -> list[str]:
    known = ", ".join(TokenScope)
    try:
        wanted = in_order(scopes)
    except ValueError as error:
        raise InvalidInput.at("scopes", _("There are the scopes {known}.").format(known=known)) from error
    if not wanted:
        raise InvalidInput.at("scopes", _("Choose at least one scope of {known}.").format(known=known))
    return wanted


def visible_keypairs(actor: Actor) -> QuerySet[KeyPair]:
    """The actor's own keypairs."""
    return KeyPair.objects.filter(user_id=actor.user_id or 0)


def access_keypair(actor: Actor, keypair_id: int) -> KeyPair:
    keypair = visible_keypairs(actor).filter(pk=keypair_id).first()
    if keypair is None:
        raise NotFound(_("There is no such token among yours."))
    return keypair


def user_keypairs(actor: Actor, user_id: int) -> QuerySet[KeyPair]:
    """Keypairs of a user whose account the actor may edit; without secrets, which are not stored.
    Raises NotFound, PermissionDenied.
    """
    return KeyPair.objects.filter(user=access_user(actor, user_id, Action.EDIT))


def access_user_keypair(actor: Actor, user_id: int, keypair_id: int) -> KeyPair:
    keypair = user_keypairs(actor, user_id).filter(pk=keypair_id).first()
    if keypair is None:
        raise NotFound(_("There is no such token of this person."))
    return keypair


def require_scopes(keypair: KeyPair, sufficient: Scopes) -> None:
    """Require that the token has one of these scopes. Raises PermissionDenied."""
    if not may(keypair.scopes, sufficient):
        raise PermissionDenied(
            _("This token may not do this: its scopes are {scopes}.").format(
                scopes=", ".join(keypair.scopes)
            ),
            hint=_("One of these would do: {scopes}. Scopes are set on your page of keys.").format(
                scopes=", ".join(in_order(sufficient))
            )
            if sufficient
            else _("No token may; sign in with a browser."),
            code="scope_missing",
        )


def find_usable_keypair(access_key: str, at: datetime | None = None) -> KeyPair | None:
    """Return the keypair with this access key if it is active and unexpired and its user and domain
    are active. `policy_rate` is the smallest request rate of its policies, `central_rate` that of
    installation-wide policies. One query.
    """
    policies = [f"{scope}policy" for scope in ("", "user__", "user__domain__")]
    rates = [f"{policy}__max_requests" for policy in policies]
    central = [
        Case(When(**{f"{policy}__domain": None}, then=rate))
        for policy, rate in zip(policies, rates, strict=True)
    ]
    usable = KeyPair.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=at or clock.now()),
        access_key=access_key,
        is_active=True,
        user__is_active=True,
        user__domain__is_active=True,
    )
    rated = usable.annotate(policy_rate=Least(*rates), central_rate=Least(*central))  # type: ignore[no-redef]
    return rated.select_related("user__domain").first()
