"""Parts of pages that look alike again and again, drawn once: badges, meters, rows that have not changed."""

from collections.abc import Hashable
from functools import lru_cache

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import get_language

MOST_KEPT = 2048


def drawn(template_name: str, **variables: Hashable) -> SafeString:
    """The template with these variables. They and the reader's language are all that it can depend on, as it gets no request
    and no context; so whoever asks for the same again gets what was drawn before."""
    return _drawn(template_name, get_language(), **variables)


@lru_cache(maxsize=MOST_KEPT)
def _drawn(template_name: str, _language: str | None, **variables: Hashable) -> SafeString:
    return render_to_string(template_name, variables)
