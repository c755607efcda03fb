"""Impersonation: starts, checks and ends a read-only view of the portal as another user."""

from dataclasses import replace
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.core import authorization
from accounts.core.authorization import Action, ActorScope
from accounts.core.roles import Role
from accounts.locks import lock_users
from accounts.models import BrowserLogin, Impersonation, User
from accounts.selectors import access_user
from common import clock
from common.actors import SYSTEM, Actor, ActorKind
from common.audit import audit_log
from common.errors import Conflict, InvalidInput, NotAuthenticated, PermissionDenied, invalid_field
from common.values.text import check_text

VIEW_AS = "accounts.view_as"
STOP_VIEWING_AS = "accounts.stop_viewing"
LONGEST_REASON = 200


def max_duration() -> timedelta:
    """Length of an impersonation; zero if the feature is switched off."""
    return timedelta(minutes=settings.BERTH_VIEW_AS_MINUTES)


def find_impersonation(login: BrowserLogin | None) -> Impersonation | None:
    """Return the impersonation in this browser, valid or not (see `end_reason`). No query."""
    return getattr(login, "viewing", None)


def end_reason(viewing: Impersonation, viewer: User) -> str:
    """Return the code of the reason that ends the impersonation; "" while it is valid. No query.
    `viewer` must be an active user freshly read from the database.
    """
    person = viewing.person
    if viewing.ends_at <= clock.now():
        return "time_over"
    if not max_duration():
        return "switched_off"
    if not (person.is_active and person.domain.is_active):
        return "account_closed"
    actor_scope = ActorScope(user_id=viewer.pk, role=Role(viewer.role), domain_id=viewer.domain_id)
    allowed = authorization.user_actions(
        actor_scope, user_id=person.pk, role=Role(person.role), domain_id=person.domain_id
    )
    return "" if Action.VIEW_AS in allowed else "permission_denied"


def access_impersonated(actor: Actor, user_id: int) -> User:
    """Fetch the user to impersonate. Raises NotFound, PermissionDenied, Conflict (closed account)."""
    person = access_user(actor, user_id, Action.VIEW_AS)
    if not max_duration():
        raise PermissionDenied(
            _("Impersonation is switched off here."), hint=_("The setting BERTH_VIEW_AS_MINUTES says so.")
        )
    if not (person.is_active and person.domain.is_active):
        raise Conflict(
            _("The account of {name} is closed.").format(name=person.email), hint=_("Open it again first.")
        )
    return person


@transaction.atomic
def start_impersonation(*, actor: Actor, login_key: str, user_id: int, reason: str) -> Impersonation:
    """Start an impersonation in the browser of this login of the actor, effective with the next
    request. Replaces a running one. Raises NotFound, PermissionDenied, Conflict, InvalidInput.
    """
    lock_users(actor, user_id)
    person = access_impersonated(actor, user_id)
    reason = _check_reason(reason)
    logins = BrowserLogin.objects.select_for_update(of=("self",))
    login = logins.filter(pk=login_key, user_id=actor.user_id).first()
    if login is None:
        raise NotAuthenticated(_("This login has ended."), hint=_("Sign in again."))
    if before := find_impersonation(login):
        end_impersonation(before, origin=actor, reason="stopped")

    now = clock.now()
    viewing = Impersonation.objects.create(
        login=login, person=person, reason=reason, began_at=now, ends_at=now + max_duration()
    )
    changes = {"reason": reason, "until": viewing.ends_at}
    audit_log.record_impersonation(
        actor=impersonated_actor(actor, person), action=VIEW_AS, target=person, changes=changes
    )
    return viewing


@transaction.atomic
def end_impersonation(viewing: Impersonation, *, origin: Actor, reason: str) -> None:
    """End the impersonation. `origin` is the requesting actor. Idempotent."""
    for found in Impersonation.objects.select_for_update(of=("self",)).filter(pk=viewing.pk):
        found.ended_by = (origin, reason)  # type: ignore[attr-defined]
        found.delete()


def record_impersonation_end(sender: object, instance: Impersonation, **more: object) -> None:
    """Record the end of an impersonation in the audit log. Receiver of `post_delete`, so that ends
    by sign-out, account closure and expiry are recorded as well.
    """
    viewer = instance.login.user
    assert viewer is not None, "nobody looks who is not signed in"
    is_late = instance.ends_at <= clock.now()
    origin, reason = getattr(instance, "ended_by", (SYSTEM, "time_over" if is_late else "login_ended"))
    actor = replace(
        origin,
        kind=ActorKind.USER,
        user_id=viewer.pk,
        label=viewer.email,
        impersonator_id=None,
        impersonator_label="",
    )
    audit_log.record_impersonation(
        actor=impersonated_actor(actor, instance.person),
        action=STOP_VIEWING_AS,
        target=instance.person,
        reason=reason,
    )


def impersonated_user(login_key: str) -> User | None:
    """Return the impersonated user in the browser of this login, or None. One query."""
    viewings = Impersonation.objects.select_related("person").filter(
        login_id=login_key, ends_at__gt=clock.now()
    )
    return next((found.person for found in viewings), None)


def impersonated_actor(viewer: Actor, person: User) -> Actor:
    """Return the actor `person` with `viewer` recorded as the impersonating user."""
    return Actor(
        kind=ActorKind.USER, user_id=person.pk, label=person.email, domain_id=person.domain_id,
        ip=viewer.ip, request_id=viewer.request_id, via=viewer.via, user_agent=viewer.user_agent,
        impersonator_id=viewer.user_id, impersonator_label=viewer.label,
    )  # fmt: skip


def _check_reason(reason: str) -> str:
    with invalid_field("reason"):
        text = check_text(reason.strip(), max_length=LONGEST_REASON)
    if not text:
        raise InvalidInput.at("reason", _("Give a reason."))
    return text
