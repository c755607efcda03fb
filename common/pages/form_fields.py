"""Form fields that do not validate: the app's own parser does, with the same messages as REST."""

from collections.abc import Container
from typing import Any

from django import forms
from django.utils.translation import gettext as _


class RestrictedSelect(forms.Select):
    """Select whose `closed` choices are disabled and labelled; a selected one stays selectable."""

    closed: Container[str] = ()

    def create_option(
        self, name: str, value: Any, label: Any, selected: Any, *rest: Any, **options: Any
    ) -> dict[str, Any]:
        option = super().create_option(name, value, label, selected, *rest, **options)
        option["attrs"]["data-label"] = label
        if value in self.closed:
            option["label"] = _("{choice} — not allowed here").format(choice=label)
            option["attrs"]["disabled"] = not selected
        return option


class UncheckedField(forms.CharField):
    """Text field that returns its input unchanged."""

    def clean(self, value: Any) -> str:
        return "" if value is None else str(value)


class UncheckedChoice(forms.ChoiceField):
    """Choice field that returns the submitted value unchecked."""

    def clean(self, value: Any) -> str:
        return "" if value is None else str(value)


class UncheckedMultipleChoice(forms.MultipleChoiceField):
    """Multiple choice field that returns the submitted values unchecked."""

    def clean(self, value: Any) -> list[str]:
        return [str(each) for each in value or ()]
