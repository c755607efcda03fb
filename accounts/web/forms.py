"""Forms of the profile page."""

from django import forms
from django.utils.translation import gettext_lazy

from common.forms import TypedField


class TokenForm(forms.Form):
    name = TypedField(
        max_length=60,
        label=gettext_lazy("What is it for?"),
        widget=forms.TextInput(
            attrs={"placeholder": gettext_lazy("laptop, nightly training…"), "autocomplete": "off"}
        ),
    )
