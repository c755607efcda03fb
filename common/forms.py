"""Fields of pages that refuse nothing themselves: the room's own parser does, in the words that REST has too."""

from typing import Any

from django import forms


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
