"""Counts and amounts of time in words. The page's times.js says the same of times."""

from common.languages import gettext as _
from common.languages import gettext_noop

_UNITS = (
    (gettext_noop("{number} d"), 86400),
    (gettext_noop("{number} h"), 3600),
    (gettext_noop("{number} min"), 60),
    (gettext_noop("{number} s"), 1),
)
_JUST_NOW_S = 5


class Count(int):
    """A number of things, which says itself as all our languages write it: "12,800"."""

    def __str__(self) -> str:
        return f"{int(self):,}"


def duration_words(seconds: float) -> str:
    """The two largest units: "45 s", "4 min 10 s", "3 h 5 min", "2 d"; "<1 s" below one second."""
    if 0 < seconds < 1:
        return _("<1 s")
    words = _unit_words(seconds)
    if len(words) == 1:
        return words[0]
    return _("{larger_unit} {smaller_unit}").format(larger_unit=words[0], smaller_unit=words[1])


def ago_words(seconds: float) -> str:
    """ "just now", "45 s ago", "3 h ago": the largest unit only."""
    if seconds < _JUST_NOW_S:
        return _("just now")
    return _("{duration} ago").format(duration=_unit_words(seconds)[0])


def _unit_words(seconds: float) -> list[str]:
    """One or two units, the larger first; ["0 s"] for what is less than a second."""
    rest = max(int(seconds), 0)
    first = next((index for index, (_words, size) in enumerate(_UNITS) if rest >= size), len(_UNITS) - 1)
    words: list[str] = []
    for unit, size in _UNITS[first : first + 2]:
        number, rest = divmod(rest, size)
        if number or not words:
            words.append(_(unit).format(number=number))
    return words
