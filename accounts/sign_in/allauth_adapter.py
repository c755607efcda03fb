"""Adapter of django-allauth: no public sign-up, throttled passwords, mails and addresses of
Berth.
"""

from typing import Any
from urllib.parse import urlsplit

from allauth.account.adapter import DefaultAccountAdapter
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from accounts.core.sign_in_requirements import RequiredAction, is_allowed_from
from accounts.core.throttle import Purpose
from accounts.logins.mails import send_on_commit
from accounts.logins.required_actions import required_action_error
from accounts.models import User
from accounts.sign_in.audit_events import record_refused_sign_in
from accounts.sign_in.federation import has_linked_provider
from accounts.sign_in.throttle import count_attempt
from common.pages.error_pages import error_page

OTHER_WAYS = {
    "reauthenticate": gettext_noop("By your password"),
    "mfa_reauthenticate": gettext_noop("By a code of your authenticator app, or a recovery code"),
    "mfa_reauthenticate:webauthn": gettext_noop("By a passkey"),
}


class ClosedSignUpAdapter(DefaultAccountAdapter):
    error_messages = {  # noqa: RUF012  the form that allauth wants
        **DefaultAccountAdapter.error_messages,
        "account_inactive": gettext_lazy("This account is closed."),
        "email_password_mismatch": gettext_lazy("E-mail address or password is not right."),
        "enter_current_password": gettext_lazy("This is not your current password."),
        "incorrect_password": gettext_lazy("This is not your password."),
        "invalid_password_reset": gettext_lazy("This link opens nothing any more."),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def pre_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse | None:
        refusal: HttpResponse | None = super().pre_login(request, user, **kwargs)
        if refusal is None and not user.domain.is_active:
            refusal = self.respond_user_inactive(request, user)
        ip = self.get_client_ip(request)
        if refusal is None and not is_allowed_from(ip, user.allowed_networks):
            record_refused_sign_in(request, user.email, reason="address_not_allowed")
            refusal = error_page(request, required_action_error(RequiredAction.ADDRESS, ip))
        return refusal

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Send a sign-in mail after commit, if mail is configured. Failures are logged."""
        send_on_commit(self.render_mail(template_prefix, email, {"request": self.request, **context}))

    def get_reset_password_from_key_url(self, key: str) -> str:
        """Build the link with BERTH_URL, not with the host name of the request."""
        url: str = super().get_reset_password_from_key_url(key)
        return str(settings.BERTH_URL) + urlsplit(url).path

    def format_email_subject(self, subject: str) -> str:
        return subject

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, str]]:
        ways: list[dict[str, str]] = super().get_reauthentication_methods(user)
        return [{**way, "description": _(OTHER_WAYS[way["id"]])} for way in ways]

    def clean_password(self, password: str, user: User | None = None) -> str:
        """Reject the old password if a change is required. Reject any password for users of a
        provider or directory: it would remain valid after they have left there.
        """
        chosen: str = super().clean_password(password, user)
        if user is not None and not user.has_usable_password() and has_linked_provider(user):
            raise ValidationError(_("Your password is kept by your provider or directory."))
        if user is not None and user.must_change_password and user.check_password(chosen):
            raise ValidationError(_("This is the password that you have. Choose another one."))
        return chosen

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return the client's address; the server has resolved trusted proxies already."""
        return request.META.get("REMOTE_ADDR") or "unknown"

    def authenticate(self, request: HttpRequest, **credentials: Any) -> User | None:
        """Count the attempt before the password is verified. Raises TooManyRequests."""
        attempt = count_attempt(request, Purpose.PASSWORD, str(credentials.get("email") or ""))
        user: User | None = super().authenticate(request, **credentials)
        if user is not None:
            attempt.succeed()
        return user
