"""Records sign-ins, failed attempts, sign-outs and password changes in the audit log, from signals
of Django and allauth.
"""

from typing import Any, TypeGuard

from allauth.account.models import EmailAddress
from allauth.account.signals import password_changed, password_reset, password_set
from allauth.mfa.models import Authenticator
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db.models import Q
from django.http import HttpRequest
from django.utils.translation import gettext as _

from accounts.core.roles import Role
from accounts.logins.concurrent_logins import end_oldest_logins
from accounts.logins.impersonation import VIEW_AS
from accounts.logins.service import end_logins
from accounts.logins.trusted_devices import forget_devices, trust_device
from accounts.models import SIGNED_IN, SignInLink, User
from accounts.sign_in.federation import complete_pending_link
from common import clock
from common.actors import Actor, ActorKind
from common.audit import audit_log
from common.http.user_agent import device_name
from common.models import AuditEntry
from common.rest.actor import actor_of

SIGN_IN = "accounts.sign_in"
SIGN_OUT = "accounts.sign_out"
SET_PASSWORD = "accounts.set_password"
ASK_RESET = "accounts.ask_password_reset"
NOT_AN_ADDRESS = "—"
LONGEST_ADDRESS = 120
SHOWN = 8


def connect() -> None:
    user_logged_in.connect(_on_sign_in, dispatch_uid="audit-sign-in")
    user_logged_out.connect(_on_sign_out, dispatch_uid="audit-sign-out")
    user_login_failed.connect(_on_failure, dispatch_uid="audit-sign-in-failed")
    for signal in (password_changed, password_reset, password_set):
        signal.connect(_on_password, dispatch_uid="audit-password")
    password_reset.connect(_on_reset, dispatch_uid="proved-address")


def account_sign_ins(actor: Actor) -> Q:
    """Filter for audit entries of sign-ins to the actor's account, failed attempts, and
    impersonations of the actor.
    """
    return Q(
        action__in=(SIGN_IN, VIEW_AS), target_type=User._meta.label_lower, target_id=str(actor.user_id or 0)
    )


def last_sign_ins(actor: Actor) -> list[dict[str, Any]]:
    """Return the last SHOWN sign-ins, attempts and impersonations of the actor's account, newest
    first: [{"at", "count", "ip", "device", "outcome", "viewer"}]. For an impersonation by `viewer`
    the address is omitted. One query.
    """
    entries = AuditEntry.objects.filter(account_sign_ins(actor))[:SHOWN]
    return [
        {
            "at": entry.recorded_at,
            "count": entry.count,
            "ip": entry.ip if entry.action == SIGN_IN else "",
            "device": device_name(entry.user_agent) or _("unknown device"),
            "outcome": entry.outcome,
            "viewer": entry.actor_label if entry.action == VIEW_AS else "",
        }
        for entry in entries
    ]


def record_refused_sign_in(request: HttpRequest, email: str, *, reason: str = "") -> None:
    """Record a failed sign-in, at most once a minute per account and address. Input that is no
    e-mail address may be a password and is not stored.
    """
    email = email.strip().lower()[:LONGEST_ADDRESS]
    user = User.objects.select_related("domain").filter(email=email).first()
    audit_log.record_refusal(
        actor=actor_of(request),
        action=SIGN_IN,
        reason=reason or _failure_reason(user),
        target=(User._meta.label_lower, str(user.pk) if user is not None else ""),
        target_label=email if "@" in email else NOT_AN_ADDRESS,
        domain_id=user.domain_id if user is not None and user.role != Role.SUPERADMIN else None,
        kind=(email,),
    )


def record_reset_request(request: HttpRequest, user: User) -> None:
    """Record a request for a password reset mail; `accounts.sign_in.throttle` limits their number."""
    audit_log.record(actor=actor_of(request), action=ASK_RESET, target=user)


def _failure_reason(user: User | None) -> str:
    if user is None:
        return "unknown_address"
    return "wrong_password" if user.is_active and user.domain.is_active else "account_closed"


def _on_sign_in(sender: object, request: HttpRequest | None, user: User, **more: Any) -> None:
    if request is not None:
        request.session[SIGNED_IN] = {
            "ip": request.META.get("REMOTE_ADDR", "")[:45],
            "user_agent": request.headers.get("User-Agent", "")[:200],
            "at": clock.now().timestamp(),
        }
    if _is_portal_request(request):
        trust_device(request, user)
        provider = getattr(request, "signed_in_by", "")
        changes = {"provider": provider} if provider else {}
        actor = sign_in_actor(request, user)
        audit_log.record(actor=actor, action=SIGN_IN, target=user, changes=changes)
        complete_pending_link(request, actor=actor, user=user)
        end_oldest_logins(actor=actor, user=user, session=request.session)


def _on_sign_out(sender: object, request: HttpRequest | None, user: User | None, **more: Any) -> None:
    if _is_portal_request(request) and user is not None:
        audit_log.record(actor=sign_in_actor(request, user), action=SIGN_OUT, target=user)


def _on_failure(
    sender: object, credentials: dict[str, Any], request: HttpRequest | None = None, **more: Any
) -> None:
    if _is_portal_request(request):
        record_refused_sign_in(request, str(credentials.get("email") or credentials.get("username") or ""))


def _on_password(sender: object, request: HttpRequest | None, user: User, **more: Any) -> None:
    handle_new_password(user, request)
    if _is_portal_request(request):
        audit_log.record(actor=sign_in_actor(request, user), action=SET_PASSWORD, target=user)


def _on_reset(sender: object, request: HttpRequest, user: User, **more: Any) -> None:
    """Verify the address of a user who reset the password by mail. If it was unverified, delete
    keypairs and second factors, which a foreign creator of the account may have left.
    """
    unproved = EmailAddress.objects.filter(user=user, email=user.email, verified=False)
    if unproved.update(verified=True):
        user.keypairs.all().delete()
        Authenticator.objects.filter(user=user).delete()


def handle_new_password(user: User, request: HttpRequest | None) -> None:
    """End everything that a password change invalidates: sign-in links, a required change, and all
    logins and trusted devices except in the browser of `request`.
    """
    SignInLink.objects.filter(user=user).delete()
    User.objects.filter(pk=user.pk).update(must_change_password=False)
    user.must_change_password = False
    end_logins(user.pk, except_key=(request.session.session_key if request is not None else None) or "")
    forget_devices(user.pk, except_request=request)


def _is_portal_request(request: HttpRequest | None) -> TypeGuard[HttpRequest]:
    """Return true if the request passed through the portal's middleware."""
    return hasattr(request, "request_id") and hasattr(request, "user")


def sign_in_actor(request: Any, user: User) -> Actor:
    """Return the actor for `user` with the origin of the request. During sign-in and sign-out
    `request.user` may be another user or anonymous.
    """
    request_actor = actor_of(request)
    return Actor(
        kind=ActorKind.USER, user_id=user.pk, label=user.email, domain_id=user.domain_id,
        is_superadmin=user.is_superuser, is_monitor=user.is_monitor, is_domain_monitor=user.is_domain_monitor,
        ip=request_actor.ip, request_id=request_actor.request_id, via=request_actor.via, user_agent=request_actor.user_agent,
    )  # fmt: skip
