"""Fields of pages that refuse nothing themselves: the room's own parser does, in the words that REST has too."""

from collections.abc import Container
from typing import Any

from django import forms
from django.utils.translation import gettext as _


class OpenChoices(forms.Select):
    """A select in which those choices that are `closed` cannot be chosen, and say so; one that is chosen already stays."""

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


class TypedField(forms.CharField):
    """What was typed, as it is."""

    def clean(self, value: Any) -> str:
        return "" if value is None else str(value)


class TypedChoice(forms.ChoiceField):
    """What was chosen, or sent in its place."""

    def clean(self, value: Any) -> str:
        return "" if value is None else str(value)


class TypedChoices(forms.MultipleChoiceField):
    """The same for many."""

    def clean(self, value: Any) -> list[str]:
        return [str(each) for each in value or ()]
