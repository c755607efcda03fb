"""Forms of the profile page."""

import uuid

from django import forms


def _new_serial() -> str:
    return uuid.uuid4().hex


class TokenForm(forms.Form):
    name = forms.CharField(
        max_length=60,
        label="What is it for?",
        widget=forms.TextInput(attrs={"placeholder": "laptop, nightly training…", "autocomplete": "off"}),
    )
    # Tells a form that is sent again (a reloaded page) from a new one.
    serial = forms.CharField(max_length=32, required=False, initial=_new_serial, widget=forms.HiddenInput)
