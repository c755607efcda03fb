"""Text that people and programs send: what can be stored, shown and logged without doubt about what it is. Pure."""

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

from common.languages import gettext as _

# Control, format (bidirectional overrides), unassigned, private use, halves of surrogate pairs, line and paragraph ends.
_UNSHOWN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SHOWN_LENGTH = 40


def shown(value: object, length: int = _SHOWN_LENGTH) -> str:
    """`value` for a sentence: at most `length` characters, each of them one that can be seen."""
    text = value if isinstance(value, str) else _words_for(value)
    seen = "".join(_REPLACEMENT if _is_unshown(character) else character for character in text[:length])
    return f"{seen}…" if len(text) > length else seen


def quoted(value: object, length: int = _SHOWN_LENGTH) -> str:
    """The same in quotation marks."""
    return _("“{text}”").format(text=shown(value, length))


def check_text(value: object, *, max_length: int, is_multiline: bool = False) -> str:
    """`value` if it is text of at most `max_length` characters that all show; lines and tabs only in multi-line text.
    Raises ValueError with a sentence."""
    text = check_unicode(value)
    if len(text) > max_length:
        raise ValueError(
            _("At most {most} characters; these are {count}.").format(
                most=f"{max_length:,}", count=f"{len(text):,}"
            )
        )
    allowed = "\t\n\r" if is_multiline else ""
    if any(_is_unshown(character) and character not in allowed for character in text):
        raise ValueError(_("Control characters and characters that do not show are not allowed here."))
    return text


def check_unicode(value: object) -> str:
    """`value` if it is text that UTF-8 can carry. Raises ValueError with a sentence."""
    if not isinstance(value, str):
        raise ValueError(_("Give text, not {kind}.").format(kind=_words_for(value)))
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(_("This is no valid Unicode text: it has half of a surrogate pair.")) from error
    return value


def unknown_field(name: object, known: Collection[str]) -> str:
    """The sentence for a field that nobody knows, with the one that was probably meant."""
    close = get_close_matches(str(name)[:_SHOWN_LENGTH], known, n=1)
    if close:
        return _("There is no such field. Did you mean “{name}”?").format(name=close[0])
    return _("There is no such field. Known here: {names}.").format(names=", ".join(sorted(known)))


def _is_unshown(character: str) -> bool:
    return unicodedata.category(character) in _UNSHOWN


def _words_for(value: object) -> str:
    """What kind of JSON this is; numbers as they were written."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**_SHOWN_LENGTH else _("a very large number")
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return _("an object")
    return _("a list") if isinstance(value, Sequence) else _("something else")
