"""Amounts of time in words. The page's times.js says the same."""

_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_JUST_NOW_S = 5


def duration_words(seconds: float) -> str:
    """The two largest units: "45 s", "4 min 10 s", "3 h 5 min", "2 d"; "<1 s" below one second."""
    rest = int(seconds)
    first = next((index for index, (_, size) in enumerate(_UNITS) if rest >= size), None)
    if first is None:
        return "<1 s" if seconds > 0 else "0 s"
    words = []
    for unit, size in _UNITS[first : first + 2]:
        number, rest = divmod(rest, size)
        if number:
            words.append(f"{number} {unit}")
    return " ".join(words)


def ago_words(seconds: float) -> str:
    """ "just now", "45 s ago", "3 h ago": the largest unit only."""
    if seconds < _JUST_NOW_S:
        return "just now"
    number, unit = duration_words(seconds).split()[:2]
    return f"{number} {unit} ago"
