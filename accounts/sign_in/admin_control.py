"""Administrators' control of a user's sign-in: password change, allowed networks, sign-out, reset
mail.
"""

from collections.abc import Collection

from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.core.authorization import Action
from accounts.core.sign_in_requirements import is_allowed_from, parse_networks
from accounts.logins import mails
from accounts.logins.mails import send_on_commit
from accounts.logins.service import end_logins
from accounts.logins.trusted_devices import forget_devices
from accounts.models import User
from accounts.selectors import access_user, require_superadmin
from accounts.sign_in.federation import has_linked_provider
from accounts.sign_in.throttle import count_admin_mail
from accounts.tenancy.service import lock_user
from common.actors import Actor
from common.audit import audit_log
from common.errors import Conflict, invalid_field


@transaction.atomic
def update_sign_in(
    *,
    actor: Actor,
    user_id: int,
    must_change_password: bool | None = None,
    allowed_networks: Collection[str] | None = None,
) -> User:
    """Require a password change or set the networks from which the account may be used (empty:
    all); None keeps the value. Applies to open connections within seconds. Raises NotFound,
    PermissionDenied, InvalidInput, and Conflict for networks that would exclude the actor.
    """
    lock_user(actor, user_id, Action.EDIT)
    user = access_user(actor, user_id, Action.EDIT)
    before = {"must_change_password": user.must_change_password, "allowed_networks": user.allowed_networks}
    if must_change_password and not user.has_usable_password():
        raise Conflict(
            _("{name} has no password here to change.").format(name=user.email),
            hint=_("Close the account instead."),
        )
    if must_change_password is not None:
        user.must_change_password = must_change_password
    if allowed_networks is not None:
        with invalid_field("allowed_networks"):
            user.allowed_networks = parse_networks(allowed_networks)
    if user.pk == actor.user_id and before["allowed_networks"] not in ([], user.allowed_networks):
        require_superadmin(actor)  # nobody lifts restrictions that others set on them
    if user.pk == actor.user_id and not is_allowed_from(actor.ip, user.allowed_networks):
        raise Conflict(
            _(
                "You are at {address}, which is in none of these networks: you would shut yourself out."
            ).format(address=actor.ip or "—"),
            hint=_("Add a network with your address."),
        )

    user.save(update_fields=["must_change_password", "allowed_networks"])
    after = {"must_change_password": user.must_change_password, "allowed_networks": user.allowed_networks}
    audit_log.record(
        actor=actor,
        action="accounts.control_sign_in",
        target=user,
        changes=audit_log.changed(_audit_fields(before), _audit_fields(after)),
    )
    return user


@transaction.atomic
def end_user_logins(*, actor: Actor, user_id: int) -> int:
    """Sign a user out of all browsers, the actor's own included, and forget all trusted devices.
    Returns the number of ended logins. Raises NotFound, PermissionDenied.
    """
    lock_user(actor, user_id, Action.EDIT)
    user = access_user(actor, user_id, Action.EDIT)

    count = end_logins(user.pk)
    forget_devices(user.pk)
    audit_log.record(actor=actor, action="accounts.end_user_logins", target=user, changes={"logins": count})
    return count


@transaction.atomic
def mail_password_link(*, actor: Actor, user_id: int) -> None:
    """Mail a user a password reset link. Raises NotFound, PermissionDenied, TooManyRequests, and
    Conflict if mail is not configured, the account is closed, or the password is kept by a provider
    or directory.
    """
    user = access_user(actor, user_id, Action.EDIT)
    if not settings.BERTH_MAIL:
        raise Conflict(
            _("No mail is set up here, so none can be sent."),
            hint=_("Create a link that signs the person in, or ask the operator to set EMAIL_URL."),
        )
    if not user.is_active or (has_linked_provider(user) and not user.has_usable_password()):
        raise Conflict(_("{name} chooses no password here.").format(name=user.email))

    count_admin_mail(user.email)
    send_on_commit(mails.password_reset_mail(user, _password_url(user)))
    audit_log.record(actor=actor, action="accounts.mail_password_link", target=user)


def _password_url(user: User) -> str:
    named = {"uidb36": user_pk_to_url_str(user), "key": PasswordResetTokenGenerator().make_token(user)}
    return str(settings.BERTH_URL) + reverse("account_reset_password_from_key", kwargs=named)


def _audit_fields(facts: dict[str, object]) -> dict[str, object]:
    """Rename the fields for the audit log, which drops fields named like secrets."""
    return {"must_change": facts["must_change_password"], "networks": facts["allowed_networks"]}
