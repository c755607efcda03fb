"""Form fields for limits: input in display units, value in base units. An empty field means
unlimited.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.core.allow_lists import LONGEST_ENTRY, MOST_ENTRIES, NONE, AllowList, check_entries
from accounts.core.utilization import MOST_PERCENT
from common.values.durations import duration_input, format_duration, parse_duration
from common.values.resources import (
    CPU,
    MEM,
    MILLI,
    is_memory,
    is_slot_name,
    parse_bytes,
    parse_milli,
    split_part,
)
from common.values.text import quoted

MOST_COUNT = 2**31 - 1
UNITS = ((2**40, "t"), (2**30, "g"), (2**20, "m"))
EXAMPLE = gettext_lazy("Like “cpu=16, mem=64g, cuda=2”. What is not named is unlimited; cuda=0 forbids it.")

BROWSERS = gettext_lazy(
    "Browsers in which one person is signed in at the same time. One more sign-in ends the oldest; a lower number ends none before that."
)
PRIORITY = gettext_lazy(
    "From 0 to 100. Nobody starts sessions with a priority above 0 unless a policy of the whole installation says so here."
)
ENTRIES_EXAMPLE = gettext_lazy("One a line; an empty field allows all, “none” alone allows nothing.")


class SlotsField(forms.CharField):
    """Field for amounts of slots in display units, such as “cpu=16, mem=64g”. Value in base units;
    zeros are kept, because they forbid a slot. With `has_parts`, parts of a device too: “cuda.mem=20g”.
    """

    def __init__(self, *, has_parts: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._has_parts = has_parts

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return ", ".join(f"{name}={typed_amount(name, amount)}" for name, amount in value.items())

    def clean(self, value: Any) -> dict[str, int]:
        pairs = [pair.partition("=") for pair in re.split(r"[,\s]+", super().clean(value)) if pair]
        try:
            return {
                name: parse_amount(name, amount, has_parts=self._has_parts) for name, _equals, amount in pairs
            }
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(self.prepare_value(initial or {}) != data)


def typed_amount(name: str, amount: int) -> str:
    """Return the input form of an amount, e.g. "0.5" or "64g"."""
    if not is_memory(name):
        return f"{amount / MILLI:.3f}".rstrip("0").rstrip(".")
    unit = next(((size, sign) for size, sign in UNITS if amount and amount % size == 0), (1, ""))
    return f"{amount // unit[0]}{unit[1]}"


def parse_amount(name: str, amount: object, *, has_parts: bool = False) -> int:
    """Convert an amount to base units. Raises ValueError with a sentence."""
    slot, part = split_part(name)
    if not is_slot_name(slot) or (part and not has_parts):
        raise ValueError(
            _("{name} is not the name of a resource. Use cpu, mem or a device name.").format(
                name=quoted(name)
            )
        )
    return parse_bytes(amount) if is_memory(name) else parse_milli(name, amount)


class ParsedField(forms.CharField):
    """Text field with the value `parse(text)`, which may raise ValueError; `show` is the reverse."""

    def __init__(self, parse: Callable[[str], int], show: Callable[[int], str] = str, **options: Any) -> None:
        widget = forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"})
        super().__init__(required=False, max_length=40, widget=widget, **options)
        self._parse, self._show = parse, show

    def prepare_value(self, value: Any) -> Any:
        return self._show(value) if isinstance(value, int) else value

    def clean(self, value: Any) -> int | None:
        text = super().clean(value)
        try:
            return self._parse(text) if text else None
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error


class EntriesField(forms.CharField):
    """Field for an allow-list, entries separated by newlines or commas. Empty: no list, all
    allowed; NONE: an empty list, nothing allowed.
    """

    def __init__(self, kind: AllowList, **options: Any) -> None:
        widget = forms.Textarea(attrs={"rows": 3, "autocomplete": "off", "spellcheck": "false"})
        super().__init__(required=False, max_length=MOST_ENTRIES * LONGEST_ENTRY, widget=widget, **options)
        self._kind = kind

    def prepare_value(self, value: Any) -> Any:
        return typed_entries(value) if isinstance(value, (list, tuple)) else value

    def clean(self, value: Any) -> list[str] | None:
        entries = [text.strip() for text in re.split(r"[,\n]", super().clean(value)) if text.strip()]
        if not entries:
            return None
        try:
            return check_entries(self._kind, [] if entries == [NONE] else entries)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool((self.prepare_value(initial) or "") != (data or ""))


def typed_entries(entries: Sequence[str]) -> str:
    """Return the input form of an allow-list."""
    return "\n".join(entries) or NONE


def count_field(**options: Any) -> ParsedField:
    return ParsedField(parse_count, **options)


def cores_field(**options: Any) -> ParsedField:
    return ParsedField(
        lambda text: parse_milli(CPU, text), lambda amount: typed_amount(CPU, amount), **options
    )


def bytes_field(**options: Any) -> ParsedField:
    return ParsedField(parse_bytes, lambda amount: typed_amount(MEM, amount), **options)


def duration_field(**options: Any) -> ParsedField:
    return ParsedField(parse_duration, duration_input, **options)


def span_field(least_s: int, most_s: int = MOST_COUNT, **options: Any) -> ParsedField:
    """Return a field for a duration between these bounds."""
    return ParsedField(lambda text: _parse_span(text, least_s, most_s), duration_input, **options)


def percent_field(**options: Any) -> forms.IntegerField:
    return forms.IntegerField(required=False, min_value=1, max_value=MOST_PERCENT, **options)


def _parse_span(text: str, least_s: int, most_s: int) -> int:
    seconds = parse_duration(text)
    if seconds < least_s:
        raise ValueError(_("The minimum is {least}.").format(least=format_duration(least_s)))
    if seconds > most_s:
        raise ValueError(_("The maximum is {most}.").format(most=format_duration(most_s)))
    return seconds


def parse_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= MOST_COUNT):
        raise ValueError(
            _("{value} is no number of things. Write a whole number like 10.").format(value=quoted(text))
        )
    return int(text)
