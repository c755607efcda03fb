"""Text that people and programs send: what can be stored, shown and logged without doubt about what it is. Pure."""

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

from common.i18n import gettext as _

# Control, format (bidirectional overrides), unassigned, private use, halves of surrogate pairs, line and paragraph ends.
_UNSHOWN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_OF_OTHER_FONTS = frozenset({"Cn", "Co"})
# Letters and marks that nothing is drawn for: Hangul fillers, Khmer inherent vowels, joiners of graphemes.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
_NON_JOINER, _JOINER = "\u200c", "\u200d"
_VIRAMA = 9  # the combining class of what makes a consonant join the next one
_KEYS, _ON_KEYCAP = frozenset("0123456789#*"), "\ufe0f\u20e3"
_PICTURES = frozenset("\u2139\u3030")  # of letters and dashes: information source, wavy dash
_FIRST_IDEOGRAPH = "\u2e80"
_MARKS = frozenset({"Mn", "Mc"})
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SHOWN_LENGTH = 40


def shown(value: object, length: int = _SHOWN_LENGTH) -> str:
    """`value` for a sentence: at most `length` characters, each of them one that can be seen."""
    text = value if isinstance(value, str) else _words_for(value)
    seen = "".join(
        _REPLACEMENT if _is_unshown(text, index) else character
        for index, character in enumerate(text[:length])
    )
    return f"{seen}…" if len(text) > length else seen


def quoted(value: object, length: int = _SHOWN_LENGTH) -> str:
    """The same in quotation marks."""
    return _("“{text}”").format(text=shown(value, length))


def normalised(text: str) -> str:
    """Unicode normalisation form C: what looks alike is alike, whichever keyboard or file system it came from."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def check_text(value: object, *, max_length: int, is_multiline: bool = False) -> str:
    """`value`, normalised, if it is text of at most `max_length` characters that all show; lines and tabs only in multi-line
    text. Joiners and variation selectors pass where a script needs them. Raises ValueError with a sentence."""
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
    """`value` if it is text that UTF-8 and PostgreSQL can carry. Raises ValueError with a sentence."""
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
    """Return True if normalised `text` has only letters with their marks, digits, dots, dashes and underscores of any script, and
    begins with a letter or digit."""
    return bool(text) and text[0].isalnum() and all(_is_of_word(text, index) for index in range(len(text)))


def has_hidden(text: str) -> bool:
    """Return True if `text` has characters that turn the direction of others or that nobody sees, beside joiners and variation
    selectors where a script needs them. Characters of fonts of one's own, and of later versions of Unicode, may show."""
    return any(
        _is_unshown(text, index) and unicodedata.category(character) not in _OF_OTHER_FONTS
        for index, character in enumerate(text)
    )


def unknown_field(name: object, known: Collection[str]) -> str:
    """The sentence for a field that nobody knows, with the one that was probably meant."""
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
    """Return True where the joiner changes how its neighbours are drawn: in Indic scripts after a virama, or a joiner between a
    consonant and its virama, in Arabic ones between two letters, in emoji between two pictures (RFC 5892, appendix A; The
    Unicode Standard, chapter 12)."""
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
    """Return True if what stands before the selector comes in several forms: pictures, signs and ideographs, and of ASCII what is
    drawn on a keycap (emoji-variation-sequences.txt of Unicode)."""
    before = text[index - 1] if index else "\0"
    if before.isascii():
        return before in _KEYS and text[index : index + 2] == _ON_KEYCAP
    category = unicodedata.category(before)
    is_ideograph = category == "Lo" and before >= _FIRST_IDEOGRAPH and before not in _BLANK
    return category in ("So", "Sm", "Po") or before in _PICTURES or is_ideograph


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
