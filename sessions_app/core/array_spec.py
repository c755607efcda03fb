"""Parses array specifications of batch sessions: indices and the array throttle. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from common.i18n import gettext as _
from common.values.text import quoted

MAX_ELEMENTS = 1000
HIGHEST_INDEX = 999_999
LONGEST_SPEC = 1000  # characters
EXAMPLE = "1-100%10"
_SPEC = re.compile(r"(?P<parts>[^%]*)(?:%(?P<most>[^%]*))?\Z")
_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?\Z", re.ASCII)
_MOST = re.compile(r"\d{1,9}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Indices in the order given, without duplicates.

    At most `most_at_once` elements run at a time; None: no throttle.
    """

    text: str
    indices: tuple[int, ...]
    most_at_once: int | None = None

    def __str__(self) -> str:
        return self.text

    def names(self, stem: str) -> list[str]:
        """Return the names of the elements, in order."""
        return [f"{stem}-{index}" for index in self.indices]


def check_array(value: object) -> ArraySpec | None:
    """Parse `1-100`, `1-100%10`, `0-9:2` or `1,3,7-9`; None if empty. Raises ValueError."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ValueError(_invalid_array_message(value))
    text = value.strip()
    found = _SPEC.match(text)
    if found is None or len(text) > LONGEST_SPEC:
        raise ValueError(_invalid_array_message(value))
    most = _most_at_once(found["most"])
    indices = _indices_of(found["parts"].split(","), value)
    if len(set(indices)) < len(indices):
        twice = next(index for place, index in enumerate(indices) if index in indices[:place])
        raise ValueError(_("{index} comes twice in the array. Name each index once.").format(index=twice))
    return ArraySpec(text, tuple(indices), most)


def _invalid_array_message(value: object) -> str:
    sentence = _("{value} is no array. Write indices like {example}, {steps} or {list}.")
    return sentence.format(value=quoted(value), example=EXAMPLE, steps="0-9:2", list="1,3,7-9")


def _most_at_once(text: str | None) -> int | None:
    if text is None:
        return None
    if not _MOST.match(text := text.strip()) or int(text) < 1:
        sentence = _("{value} is no number of sessions at once. Give a whole number from 1 after the “%”.")
        raise ValueError(sentence.format(value=quoted(text)))
    return min(int(text), MAX_ELEMENTS)


def _indices_of(parts: Sequence[str], value: str) -> list[int]:
    """Return the indices of all ranges.

    Ranges are counted before they are expanded, so that a huge range costs nothing.
    """
    indices: list[int] = []
    for part in parts:
        named = _range_of(part, value)
        if len(indices) + len(named) > MAX_ELEMENTS:
            sentence = _("{value} has more than {most} elements. Request fewer, or create several arrays.")
            raise ValueError(sentence.format(value=quoted(value), most=MAX_ELEMENTS))
        if named[-1] > HIGHEST_INDEX:
            sentence = _("{index} is too high for an index. The highest is {most}.")
            raise ValueError(sentence.format(index=named[-1], most=HIGHEST_INDEX))
        indices += named
    return indices


def _range_of(part: str, value: str) -> range:
    found = _PART.match(part.strip())
    if found is None:
        raise ValueError(_invalid_array_message(value))
    first = int(found[1])
    last, step = int(found[2] or first), int(found[3] or 1)
    if last < first or step < 1:
        sentence = _("{part} names no index. Begin with the smaller one, and step by 1 at least.")
        raise ValueError(sentence.format(part=quoted(part)))
    return range(first, last + 1, step)
