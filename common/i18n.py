"""Translation functions for pure modules: they do not import Django, so they translate by the port
`common.ports.translator`. All others use django.utils.translation. Pure.
"""

from collections.abc import Iterable
from functools import reduce

from common.ports import translator


def gettext(sentence: str) -> str:
    """Return the sentence in the reader's language; in English if not translated."""
    return translator.get().gettext(sentence)


def ngettext(singular: str, plural: str, number: int) -> str:
    """Return the plural form for `number`, with its {placeholders}."""
    return translator.get().ngettext(singular, plural, number)


def paragraph(sentences: Iterable[str]) -> str:
    """Join sentences in the way of the reader's language: Japanese has no space between them."""
    form = gettext("{sentence} {next_sentence}")
    return reduce(
        lambda text, each: form.format(sentence=text, next_sentence=each) if text else each, sentences, ""
    )


def gettext_noop(sentence: str) -> str:
    """Mark a sentence for translation and return it unchanged."""
    return sentence
