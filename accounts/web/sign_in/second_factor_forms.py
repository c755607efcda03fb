"""Forms of allauth's MFA with Berth's labels and throttling."""

from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm, BaseAuthenticateForm, ReauthenticateForm
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.webauthn.forms import AddWebAuthnForm, EditWebAuthnForm
from django import forms
from django.utils.translation import gettext_lazy

from accounts.core.throttle import Purpose
from accounts.sign_in.throttle import count_attempt
from accounts.web.sign_in.sign_up_forms import BerthLabels


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
