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


class AcceptForm(forms.Form):
    """For whom an invitation is good; `has_address`: it says so itself."""

    email = forms.CharField(
        max_length=254,
        label=gettext_lazy("E-mail"),
        help_text=gettext_lazy("You sign in with it."),
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
    )
    name = TypedField(
        max_length=120,
        required=False,
        label=gettext_lazy("Name"),
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
    )
    password = forms.CharField(
        max_length=128,
        strip=False,
        label=gettext_lazy("Password"),
        help_text=gettext_lazy("At least 10 characters."),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, data: object = None, *, has_address: bool) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        if has_address:
            del self.fields["email"]


class SignUpAskForm(forms.Form):
    email = forms.CharField(
        max_length=254, label=gettext_lazy("E-mail"), widget=forms.EmailInput(attrs={"autocomplete": "email"})
    )
