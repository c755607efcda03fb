"""Forms of allauth in our words."""

from allauth.mfa.webauthn.forms import AddWebAuthnForm
from django import forms
from django.utils.translation import gettext_lazy


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
