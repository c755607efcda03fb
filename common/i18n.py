"""Sentences in the reader's language, for the pure modules: they know no Django, so they translate by the port
`common.ports.translator`. Everything else imports the same names from django.utils.translation. Pure."""

from collections.abc import Iterable
from functools import reduce

from common.ports import translator


def gettext(sentence: str) -> str:
    """The sentence in the language of who reads it now; in English where nobody has translated it."""
    return translator.get().gettext(sentence)


def ngettext(singular: str, plural: str, number: int) -> str:
    """The form that fits `number`; it still has its {placeholders}."""
    return translator.get().ngettext(singular, plural, number)


def paragraph(sentences: Iterable[str]) -> str:
    """Whole sentences after each other, as the reader's language sets them: Japanese has no space between them."""
    form = gettext("{sentence} {next_sentence}")
    return reduce(
        lambda text, each: form.format(sentence=text, next_sentence=each) if text else each, sentences, ""
    )


def gettext_noop(sentence: str) -> str:
    """Marks a sentence that is translated where it is shown; itself unchanged."""
    return sentence
