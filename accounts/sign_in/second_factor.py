"""Second factors and passkeys of django-allauth: encryption of secrets, messages, reset, audit
log.
"""

from typing import Any

from allauth.mfa import signals
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import generate_totp_secret
from django.db import transaction
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from qrcode.main import QRCode  # type: ignore[import-untyped]

from accounts.core.authorization import Action
from accounts.models import User
from accounts.selectors import access_user
from accounts.sign_in.audit_events import SIGN_IN, sign_in_actor
from accounts.tenancy.service import lock_user
from common.actors import Actor
from common.audit import audit_log
from common.errors import Conflict
from common.rest.actor import actor_of
from common.values.encryption import Undecipherable, decrypt, encrypt

QUIET_MARGIN = 4
PURPOSE = "second factors"


class SecondFactorAdapter(DefaultMFAAdapter):
    """Adapter of allauth's MFA. Secrets are encrypted with a key derived from BERTH_SECRET_KEY;
    secrets of another key match no code.
    """

    error_messages = {  # noqa: RUF012  the form that allauth wants
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": gettext_lazy(
            "This code is not right. Codes change every half minute and work once."
        ),
        "cannot_generate_recovery_codes": gettext_lazy("Set up an authenticator app or a passkey first."),
    }

    def encrypt(self, text: str) -> str:
        return encrypt(PURPOSE, text)

    def decrypt(self, encrypted_text: str) -> str:
        try:
            return decrypt(PURPOSE, encrypted_text)
        except Undecipherable:
            return str(generate_totp_secret())

    def get_totp_issuer(self) -> str:
        return "Berth " + str(self._get_site_name())

    def build_totp_svg(self, url: str) -> SafeString:
        """Return the QR code in black on white, whatever the theme, because scanners need it."""
        return render_qr_code(url)

    def generate_authenticator_name(self, user: Any, type: Any) -> str:  # noqa: A002  its name
        count = Authenticator.objects.filter(user_id=user.pk, type=type).count()
        return _("Passkey {number}").format(number=count + 1)


def render_qr_code(text: str) -> SafeString:
    """Return a QR code as one SVG path without styles."""
    code = QRCode(border=0)
    code.add_data(text)
    code.make(fit=True)
    rows = code.get_matrix()
    dots = "".join(f"M{x} {y}h1v1h-1z" for y, row in enumerate(rows) for x, dot in enumerate(row) if dot)
    size = len(rows) + 2 * QUIET_MARGIN
    return format_html(
        '<svg class="qr-code" viewBox="-{0} -{0} {1} {1}" width="220" height="220" role="img" aria-label="{2}">'
        '<path fill="#fff" d="M-{0} -{0}h{1}v{1}h-{1}z"/><path fill="#000" d="{3}"/></svg>',
        QUIET_MARGIN,
        size,
        _("QR code for the authenticator app"),
        dots,
    )


@transaction.atomic
def reset_second_factor(*, actor: Actor, user_id: int) -> User:
    """Remove all second factors, passkeys and recovery codes of another user who lost them; the
    password alone then suffices. Raises NotFound, PermissionDenied, Conflict.
    """
    lock_user(actor, user_id, Action.EDIT)
    user = access_user(actor, user_id, Action.EDIT)
    if user.pk == actor.user_id:
        raise Conflict(
            _("Your own second factors are changed on your security page."),
            hint=_("There you confirm that it is you."),
        )
    kinds = sorted(Authenticator.objects.filter(user=user).values_list("type", flat=True))
    if not kinds:
        raise Conflict(_("{name} has no second factor.").format(name=user.email))

    Authenticator.objects.filter(user=user).delete()
    audit_log.record(
        actor=actor, action="accounts.reset_second_factor", target=user, changes={"factors": [kinds, []]}
    )
    return user


def connect() -> None:
    signals.authenticator_added.connect(_on_added, dispatch_uid="audit-factor-added")
    signals.authenticator_removed.connect(_on_removed, dispatch_uid="audit-factor-removed")
    signals.authenticator_reset.connect(_on_codes, dispatch_uid="audit-codes")
    signals.authenticator_used.connect(_on_used, dispatch_uid="audit-factor-used")
    signals.authentication_failed.connect(_on_failed, dispatch_uid="audit-factor-failed")


def _on_added(
    sender: object, request: HttpRequest, user: User, authenticator: Authenticator, **more: Any
) -> None:
    if authenticator.type == Authenticator.Type.RECOVERY_CODES:
        _on_codes(sender, request, user)
    else:
        _record(request, user, "accounts.add_second_factor", authenticator)


def _on_removed(
    sender: object, request: HttpRequest, user: User, authenticator: Authenticator, **more: Any
) -> None:
    _record(request, user, "accounts.remove_second_factor", authenticator)


def _on_codes(sender: object, request: HttpRequest, user: User, **more: Any) -> None:
    _record(request, user, "accounts.make_recovery_codes")


def _on_used(
    sender: object, request: HttpRequest, user: User, authenticator: Authenticator, **more: Any
) -> None:
    if authenticator.type == Authenticator.Type.RECOVERY_CODES:
        _record(request, user, "accounts.use_recovery_code")


def _on_failed(sender: object, request: HttpRequest, user: User, **more: Any) -> None:
    audit_log.record_refusal(
        actor=actor_of(request),
        action=SIGN_IN,
        reason="wrong_second_factor",
        target=(User._meta.label_lower, str(user.pk)),
        target_label=user.email,
        domain_id=None if user.is_superuser else user.domain_id,
    )


def _record(
    request: HttpRequest, user: User, action: str, authenticator: Authenticator | None = None
) -> None:
    changes = {} if authenticator is None else {"factor": authenticator.type, "name": str(authenticator)}
    audit_log.record(actor=sign_in_actor(request, user), action=action, target=user, changes=changes)
