"""Forms of the profile page."""

from django import forms


class TokenForm(forms.Form):
    name = forms.CharField(
        max_length=60,
        label="What is it for?",
        widget=forms.TextInput(attrs={"placeholder": "laptop, nightly training…", "autocomplete": "off"}),
    )
