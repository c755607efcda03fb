"""Forms of API tokens."""

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts.core.token_secrets import DEFAULT_LIFETIME
from common.pages.form_fields import UncheckedChoice, UncheckedField, UncheckedMultipleChoice
from common.token_scopes import TITLES, TokenScope

LIFETIMES_DAYS = (7, 30, 90, 180, 365)
NEVER = "never"
GRACES_HOURS = (0, 1, 24)


class TokenChangeForm(forms.Form):
    name = UncheckedField(
        max_length=60,
        label=gettext_lazy("Purpose"),
        widget=forms.TextInput(
            attrs={"placeholder": gettext_lazy("laptop, nightly training…"), "autocomplete": "off"}
        ),
    )
    scopes = UncheckedMultipleChoice(
        label=gettext_lazy("Scopes"),
        required=False,
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
    )

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fields["scopes"].choices = [(scope.value, _(TITLES[scope])) for scope in TokenScope]  # type: ignore[attr-defined]


class TokenForm(TokenChangeForm):
    """Form of a new token. `life` is a number of days, or NEVER."""

    life = UncheckedChoice(label=gettext_lazy("Expires"), required=False)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        initial = {"scopes": [scope.value for scope in TokenScope], "life": str(DEFAULT_LIFETIME.days)}
        super().__init__(*arguments, initial=initial, **options)
        self.fields["life"].choices = [  # type: ignore[attr-defined]
            *(
                (str(days), ngettext("in {count} day", "in {count} days", days).format(count=days))
                for days in LIFETIMES_DAYS
            ),
            (NEVER, _("never; delete it yourself")),
        ]
