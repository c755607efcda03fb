"""Sentences that rows keep: made once by a worker, read by many people, each in their own language. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from common.i18n import gettext
from common.values.resources import format_slots

# What a placeholder stands for: a text, a number, or amounts of slots in base units.
Argument = str | int | Mapping[str, int]
LONGEST_QUOTE = 400


@dataclass(frozen=True, slots=True)
class KeptSentence:
    """`text` is the English sentence with {placeholders}, marked by gettext_noop where it stands; `quote` is what somebody
    else said, an engine perhaps, in its own words. `str()` is all of it in the language of the reader."""

    text: str = ""
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    quote: str = ""

    def __str__(self) -> str:
        said = gettext(self.text) if self.text else ""
        if self.arguments:
            said = said.format_map({name: _words(value) for name, value in self.arguments.items()})
        return f"{said} ({self.quote})" if self.quote else said

    def __bool__(self) -> bool:
        return bool(self.text)

    def to_json(self) -> dict[str, object]:
        whole = {"text": self.text, "arguments": self.arguments, "quote": self.quote}
        return {name: value for name, value in whole.items() if value}


def one_line(words: object) -> str:
    """What a machine said, as a quote: one line of bounded length."""
    return " ".join(str(words).split())[:LONGEST_QUOTE]


def _words(argument: Argument) -> str | int:
    return format_slots(argument) if isinstance(argument, Mapping) else argument
