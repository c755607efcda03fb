"""Sentences in the reader's language, for the pure modules: they know no Django, so the portal plugs its translations in
(portal/apps.py). Everything else imports the same names from django.utils.translation. Pure."""

from collections.abc import Callable, Iterable
from functools import reduce

_translations: list[tuple[Callable[[str], str], Callable[[str, str, int], str]]] = []


def translate_with(one: Callable[[str], str], plural: Callable[[str, str, int], str]) -> None:
    """From now on sentences are `one(sentence)` and `plural(singular, plural, number)`; before, they stay English."""
    _translations[:] = [(one, plural)]


def gettext(sentence: str) -> str:
    """The sentence in the language of who reads it now; in English where nobody has translated it."""
    return _translations[0][0](sentence) if _translations else sentence


def ngettext(singular: str, plural: str, number: int) -> str:
    """The form that fits `number`; it still has its {placeholders}."""
    if _translations:
        return _translations[0][1](singular, plural, number)
    return singular if number == 1 else plural


def paragraph(sentences: Iterable[str]) -> str:
    """Whole sentences after each other, as the reader's language sets them: Japanese has no space between them."""
    form = gettext("{sentence} {next_sentence}")
    return reduce(
        lambda text, each: form.format(sentence=text, next_sentence=each) if text else each, sentences, ""
    )


def gettext_noop(sentence: str) -> str:
    """Marks a sentence that is translated where it is shown; itself unchanged."""
    return sentence
