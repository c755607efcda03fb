"""Adds, removes and selects SSH public keys of users."""

from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from accounts.core.authorization import Action
from accounts.core.sign_in_requirements import is_allowed_from
from accounts.core.ssh_key_format import check_key_name, parse_public_key
from accounts.credentials.keypairs import full_token_filter, require_full_token
from accounts.models import KeyPair, SshKey, User
from accounts.selectors import access_user, get_acting_user
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import Conflict, LimitExceeded, NotFound, invalid_field

MOST_KEYS = 50


def visible_ssh_keys(actor: Actor) -> QuerySet[SshKey]:
    """The actor's own SSH keys."""
    return SshKey.objects.select_related("keypair").filter(user_id=actor.user_id or 0)


def access_ssh_key(actor: Actor, ssh_key_id: int) -> SshKey:
    found = visible_ssh_keys(actor).filter(pk=ssh_key_id).first()
    if found is None:
        raise NotFound(_("There is no such SSH key among yours."))
    return found


def user_ssh_keys(actor: Actor, user_id: int) -> QuerySet[SshKey]:
    """SSH keys of a user whose account the actor may edit. Raises NotFound, PermissionDenied."""
    return SshKey.objects.select_related("keypair").filter(user=access_user(actor, user_id, Action.EDIT))


def usable_ssh_keys(user: User, *, ip: str, at: datetime | None = None) -> QuerySet[SshKey]:
    """SSH keys with which this user may sign in from `ip`. Empty for a closed account or domain and
    while a password change is required; without keys whose creating token may no longer add keys.
    One query.
    """
    if not is_allowed_from(ip, user.allowed_networks):
        return SshKey.objects.none()
    return SshKey.objects.filter(
        Q(keypair=None) | full_token_filter("keypair", at),
        Q(expires_at=None) | Q(expires_at__gt=at or clock.now()),
        user=user,
        user__is_active=True,
        user__must_change_password=False,
        user__domain__is_active=True,
    )


@transaction.atomic
def add_ssh_key(*, actor: Actor, public_key: str, name: str = "") -> SshKey:
    """Add a key of the actor; the name defaults to the key's comment. A key added with a token
    expires with it. Raises InvalidInput, PermissionDenied, Conflict (already present),
    LimitExceeded.
    """
    user = get_acting_user(actor)
    with invalid_field("public_key"):
        read = parse_public_key(public_key)
    with invalid_field("name"):
        name = check_key_name(name) or check_key_name(read.comment[:60]) or read.key_type.partition("@")[0]
    User.objects.select_for_update().get(pk=user.pk)
    token = _require_token(actor)
    ends = token.expires_at if token else None
    if known := SshKey.objects.filter(user=user, fingerprint=read.fingerprint).first():
        raise Conflict(
            _("You have this key already: “{name}”.").format(name=known.name),
            hint=_("Remove that one first to add it anew."),
        )
    if SshKey.objects.filter(user=user).count() >= MOST_KEYS:
        raise LimitExceeded(
            _("You have {most} SSH keys, as many as one may have.").format(most=MOST_KEYS),
            hint=_("Remove one that you no longer use."),
        )

    key = SshKey.objects.create(
        user=user,
        name=name,
        key_type=read.key_type,
        public_key=read.text,
        fingerprint=read.fingerprint,
        keypair=token,
        expires_at=ends,
    )
    changes = {"fingerprint": key.fingerprint, "expires_at": ends}
    audit_log.record(actor=actor, action="accounts.add_ssh_key", target=key, changes=changes)
    return key


@transaction.atomic
def remove_ssh_key(*, actor: Actor, ssh_key_id: int) -> None:
    """Remove one of the actor's own keys. Raises NotFound."""
    _remove(actor, access_ssh_key(actor, ssh_key_id))


@transaction.atomic
def revoke_ssh_key(*, actor: Actor, user_id: int, ssh_key_id: int) -> None:
    """Remove a key of a user whose account the actor may edit. Raises NotFound, PermissionDenied."""
    found = user_ssh_keys(actor, user_id).filter(pk=ssh_key_id).first()
    if found is None:
        raise NotFound(_("There is no such SSH key of this person."))
    _remove(actor, found)


def _remove(actor: Actor, key: SshKey) -> None:
    audit_log.record(
        actor=actor, action="accounts.remove_ssh_key", target=key, changes={"fingerprint": key.fingerprint}
    )
    key.delete()


def _require_token(actor: Actor) -> KeyPair | None:
    """Require that the acting token grants at least as much as a key. Raises PermissionDenied."""
    return require_full_token(
        actor,
        missing=_("Your token may not add SSH keys: it does not have the scopes {scopes}."),
        bound=_("A token with a policy of its own adds no SSH keys: they would not be bound by it."),
        hint=_("Add the key on your page of SSH keys, or with another token."),
    )
