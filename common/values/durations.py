"""Formats and parses counts and durations. times.js does the same in the browser."""

import re

from common.i18n import gettext as _
from common.i18n import gettext_noop
from common.values.text import quoted

_UNITS = (
    (gettext_noop("{number} d"), 86400),
    (gettext_noop("{number} h"), 3600),
    (gettext_noop("{number} min"), 60),
    (gettext_noop("{number} s"), 1),
)
_JUST_NOW_S = 5
_SPAN = re.compile(r"(\d{1,9})([smhdw]?)", re.IGNORECASE | re.ASCII)
_SPAN_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
MAX_SPAN_S = 2**31 - 1


class Count(int):
    """Integer that formats itself with thousands separators, as in all our languages: "12,800"."""

    def __str__(self) -> str:
        return f"{int(self):,}"


def format_duration(seconds: float) -> str:
    """Return the two largest units: "45 s", "4 min 10 s", "2 d"; "<1 s" below one second."""
    if 0 < seconds < 1:
        return _("<1 s")
    words = _unit_words(seconds)
    if len(words) == 1:
        return words[0]
    return _("{larger_unit} {smaller_unit}").format(larger_unit=words[0], smaller_unit=words[1])


def format_ago(seconds: float) -> str:
    """Return the largest unit: "just now", "45 s ago", "3 h ago"."""
    if seconds < _JUST_NOW_S:
        return _("just now")
    return _("{duration} ago").format(duration=_unit_words(seconds)[0])


def parse_duration(text: str) -> int:
    """Return the seconds of "90m", "12h", "7d", "1d 12h" or a plain number. Raises ValueError."""
    parts = [_SPAN.fullmatch(part) for part in text.split()]
    seconds = sum(int(part[1]) * _SPAN_S[part[2].lower()] for part in parts if part)
    if None in parts or not 0 < seconds <= MAX_SPAN_S:
        raise ValueError(
            _("{value} is no length of time. Write it like 90m, 12h or 7d.").format(value=quoted(text))
        )
    return seconds


def duration_input(seconds: int) -> str:
    """Return the input form of a duration: "12h", "90m"."""
    unit = next(sign for sign in ("d", "h", "m", "s") if seconds % _SPAN_S[sign] == 0)
    return f"{seconds // _SPAN_S[unit]}{unit}"


def _unit_words(seconds: float) -> list[str]:
    """Return one or two units, the larger first; ["0 s"] below one second."""
    rest = max(int(seconds), 0)
    first = next((index for index, (_words, size) in enumerate(_UNITS) if rest >= size), len(_UNITS) - 1)
    words: list[str] = []
    for unit, size in _UNITS[first : first + 2]:
        number, rest = divmod(rest, size)
        if number or not words:
            words.append(_(unit).format(number=number))
    return words
