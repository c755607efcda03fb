"""Messages stored in rows: written by a worker, shown to each reader in their language. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from common.i18n import gettext
from common.values.resources import format_slots

# Placeholder value: a text, a number, or amounts of slots in base units.
Argument = str | int | Mapping[str, int]
LONGEST_QUOTE = 400


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """Stored message. `text` is the English sentence with {placeholders}, marked by gettext_noop at
    its definition; `quote` is an untranslated external message, e.g. of an engine. `str()` returns
    it in the reader's language.
    """

    text: str = ""
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    quote: str = ""

    def __str__(self) -> str:
        text = gettext(self.text) if self.text else ""
        if self.arguments:
            text = text.format_map({name: _words(value) for name, value in self.arguments.items()})
        return f"{text} ({self.quote})" if self.quote else text

    def __bool__(self) -> bool:
        return bool(self.text)

    def to_json(self) -> dict[str, object]:
        whole = {"text": self.text, "arguments": self.arguments, "quote": self.quote}
        return {name: value for name, value in whole.items() if value}


def one_line(words: object) -> str:
    """Return an external message as a quote: one line of bounded length."""
    return " ".join(str(words).split())[:LONGEST_QUOTE]


def _words(argument: Argument) -> str | int:
    return format_slots(argument) if isinstance(argument, Mapping) else argument
