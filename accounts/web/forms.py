"""Forms of the profile page."""

from django import forms

from common.forms import TypedField


class TokenForm(forms.Form):
    name = TypedField(
        max_length=60,
        label="What is it for?",
        widget=forms.TextInput(attrs={"placeholder": "laptop, nightly training…", "autocomplete": "off"}),
    )
