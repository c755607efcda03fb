"""Forms of allauth with Berth's labels; passwords, codes and reset mails are throttled."""

from typing import Any

from allauth.account import forms as allauth_forms
from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm, BaseAuthenticateForm, ReauthenticateForm
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.webauthn.forms import AddWebAuthnForm, EditWebAuthnForm
from django import forms
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.core.throttle import Purpose
from accounts.sign_in.audit_events import record_reset_request
from accounts.sign_in.throttle import count_attempt

LABELS = {
    "login": gettext_lazy("E-mail"),
    "email": gettext_lazy("E-mail"),
    "password": gettext_lazy("Password"),
    "oldpassword": gettext_lazy("Current password"),
    "password1": gettext_lazy("New password"),
    "password2": gettext_lazy("New password, once more"),
    "code": gettext_lazy("Code"),
    "name": gettext_lazy("Name"),
}


class BerthLabels:
    """Mixin that sets Berth's labels and removes placeholders that repeat them."""

    fields: dict[str, forms.Field]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for name, field in self.fields.items():
            label: Promise | str | None = LABELS.get(name)
            if label is not None:
                field.label = label  # type: ignore[assignment]  # Django takes lazy ones
                field.widget.attrs.pop("placeholder", None)


class RepeatedPassword(BerthLabels):
    def clean(self) -> dict[str, Any]:
        """Report differing passwords with Berth's message instead of allauth's."""
        typed: dict[str, Any] = forms.Form.clean(self) or {}  # type: ignore[arg-type]
        if typed.get("password1") and typed.get("password2") and typed["password1"] != typed["password2"]:
            self.add_error("password2", _("This is not the same password as above."))  # type: ignore[attr-defined]
        return typed


class SignInForm(BerthLabels, allauth_forms.LoginForm):
    pass


class ConfirmPasswordForm(BerthLabels, allauth_forms.ReauthenticateForm):
    pass


class SetPasswordForm(RepeatedPassword, allauth_forms.SetPasswordForm):
    pass


class ResetPasswordForm(RepeatedPassword, allauth_forms.ResetPasswordKeyForm):
    pass


class ChangePasswordForm(RepeatedPassword, allauth_forms.ChangePasswordForm):
    def clean_oldpassword(self) -> str:
        """Count the attempt before the password is verified. Raises TooManyRequests."""
        attempt = count_attempt(context.request, Purpose.PASSWORD, self.user.email)
        password: str = super().clean_oldpassword()
        attempt.succeed()
        return password


class RequestResetForm(BerthLabels, allauth_forms.ResetPasswordForm):
    def save(self, request: HttpRequest, **more: Any) -> str:
        """Send the reset mail. Raises TooManyRequests, for existing and unknown addresses alike."""
        count_attempt(request, Purpose.RESET, self.cleaned_data["email"])
        for user in self.users:
            record_reset_request(request, user)
        email: str = super().save(request, **more)
        return email


class ThrottledCode(BaseAuthenticateForm):
    """Counts the attempt before a code is verified. Raises TooManyRequests."""

    def clean_code(self) -> str:
        attempt = count_attempt(context.request, Purpose.CODE, self.user.email)
        code: str = super().clean_code()
        attempt.succeed()
        return code


class CodeForm(BerthLabels, ThrottledCode, AuthenticateForm):
    pass


class ReauthenticationCodeForm(BerthLabels, ThrottledCode, ReauthenticateForm):
    pass


class ActivateAppForm(BerthLabels, ActivateTOTPForm):
    pass


class RenamePasskeyForm(BerthLabels, EditWebAuthnForm):
    pass


class AddPasskeyForm(AddWebAuthnForm):
    name = forms.CharField(
        required=False,
        max_length=60,
        label=gettext_lazy("Name"),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    passwordless = forms.BooleanField(
        required=False,
        initial=True,
        label=gettext_lazy("Sign in with it alone, without the password"),
        help_text=gettext_lazy(
            "The device asks for your finger, face or PIN then. Untick it for security keys without a PIN."
        ),
    )
    field_order = ("name", "passwordless", "credential")
