"""Checks and formats external text, so that it can be stored, shown and logged safely. Pure."""

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

from common.i18n import gettext as _

# Control, format (bidirectional overrides), unassigned, private use, surrogates, separators.
_UNSHOWN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_OF_OTHER_FONTS = frozenset({"Cn", "Co"})
# Invisible letters and marks: Hangul fillers, Khmer inherent vowels, grapheme joiners.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
_NON_JOINER, _JOINER = "\u200c", "\u200d"
_VIRAMA = 9  # combining class of marks that join a consonant to the next one
_KEYS, _ON_KEYCAP = frozenset("0123456789#*"), "\ufe0f\u20e3"
_PICTURES = frozenset("\u2139\u3030")  # among letters and dashes: information source, wavy dash
_FIRST_IDEOGRAPH = "\u2e80"
_MARKS = frozenset({"Mn", "Mc"})
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SHOWN_LENGTH = 40


def shown(value: object, length: int = _SHOWN_LENGTH) -> str:
    """Return `value` for use in a sentence: at most `length` characters, all visible."""
    text = value if isinstance(value, str) else _words_for(value)
    seen = "".join(
        _REPLACEMENT if _is_unshown(text, index) else character
        for index, character in enumerate(text[:length])
    )
    return f"{seen}…" if len(text) > length else seen


def quoted(value: object, length: int = _SHOWN_LENGTH) -> str:
    """Return `shown(value)` in quotation marks."""
    return _("“{text}”").format(text=shown(value, length))


def normalised(text: str) -> str:
    """Return the text in Unicode normalisation form C, so that texts that look alike are equal."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def check_text(value: object, *, max_length: int, is_multiline: bool = False) -> str:
    """Return `value`, normalised, if it is text of at most `max_length` visible characters; line
    breaks and tabs only if `is_multiline`. Joiners and variation selectors pass where a script
    needs them. Raises ValueError with a sentence.
    """
    text = normalised(check_unicode(value))
    if len(text) > max_length:
        raise ValueError(
            _("At most {most} characters; these are {count}.").format(
                most=f"{max_length:,}", count=f"{len(text):,}"
            )
        )
    allowed = "\t\n\r" if is_multiline else ""
    if any(_is_unshown(text, index) and text[index] not in allowed for index in range(len(text))):
        raise ValueError(_("Control characters and characters that do not show are not allowed here."))
    return text


def check_unicode(value: object) -> str:
    """Return `value` if UTF-8 and PostgreSQL can store it. Raises ValueError with a sentence."""
    if not isinstance(value, str):
        raise ValueError(_("Give text, not {kind}.").format(kind=_words_for(value)))
    if "\0" in value:
        raise ValueError(nul_sentence())
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(_("This is no valid Unicode text: it has half of a surrogate pair.")) from error
    return value


def nul_sentence() -> str:
    return _("This has a NUL character (U+0000), which no text here may have. Leave it out.")


def is_word(text: str) -> bool:
    """Return True if normalised `text` consists of letters with their marks, digits, dots, dashes
    and underscores of any script, and begins with a letter or digit.
    """
    return bool(text) and text[0].isalnum() and all(_is_of_word(text, index) for index in range(len(text)))


def has_hidden(text: str) -> bool:
    """Return True if `text` has invisible characters or ones that change text direction, except
    joiners and variation selectors where a script needs them. Private-use and unassigned characters
    are not counted: they may be visible.
    """
    return any(
        _is_unshown(text, index) and unicodedata.category(character) not in _OF_OTHER_FONTS
        for index, character in enumerate(text)
    )


def unknown_field(name: object, known: Collection[str]) -> str:
    """Return the sentence for an unknown field, with the name that was probably meant."""
    close = get_close_matches(str(name)[:_SHOWN_LENGTH], known, n=1)
    if close:
        return _("There is no such field. Did you mean “{name}”?").format(name=close[0])
    return _("There is no such field. Known here: {names}.").format(names=", ".join(sorted(known)))


def _is_of_word(text: str, index: int) -> bool:
    character = text[index]
    is_known = character.isalnum() or character in "._-" or unicodedata.category(character) in _MARKS
    return (is_known or character in (_JOINER, _NON_JOINER)) and not _is_unshown(text, index)


def _is_unshown(text: str, index: int) -> bool:
    character = text[index]
    if character in (_JOINER, _NON_JOINER):
        return not _joins(text, index)
    if _selects_variation(character):
        return not _selects_form(text, index)
    return character in _BLANK or unicodedata.category(character) in _UNSHOWN


def _joins(text: str, index: int) -> bool:
    """Return True if the joiner changes how its neighbours are drawn: in Indic scripts after a
    virama, or a joiner between a consonant and its virama; in Arabic ones between two letters; in
    emoji between two pictures (RFC 5892, appendix A; The Unicode Standard, chapter 12).
    """
    if not 0 < index < len(text) - 1:
        return False
    before, after = text[index - 1], text[index + 1]
    if unicodedata.combining(before) == _VIRAMA:
        return True
    if unicodedata.combining(after) == _VIRAMA:
        return text[index] == _JOINER and unicodedata.category(before) == "Lo"
    if unicodedata.bidirectional(after) == "AL":
        return unicodedata.bidirectional(before) in ("AL", "NSM")
    is_picture = unicodedata.category(before) in ("So", "Sk") or _selects_variation(before)
    return text[index] == _JOINER and is_picture and unicodedata.category(after) == "So"


def _selects_variation(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def _selects_form(text: str, index: int) -> bool:
    """Return True if the character before the selector has several forms: pictures, signs and
    ideographs, and in ASCII those of keycaps (emoji-variation-sequences.txt of Unicode).
    """
    before = text[index - 1] if index else "\0"
    if before.isascii():
        return before in _KEYS and text[index : index + 2] == _ON_KEYCAP
    category = unicodedata.category(before)
    is_ideograph = category == "Lo" and before >= _FIRST_IDEOGRAPH and before not in _BLANK
    return category in ("So", "Sm", "Po") or before in _PICTURES or is_ideograph


def _words_for(value: object) -> str:
    """Return the JSON kind of a value in words; numbers as written."""
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
