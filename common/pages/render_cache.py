"""Cache of rendered page parts: badges, meters, unchanged table rows."""

from collections.abc import Hashable
from functools import lru_cache

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import get_language

MOST_KEPT = 2048


def render_cached(template_name: str, **variables: Hashable) -> SafeString:
    """Render the template with these variables, cached by them and the language. It gets no request
    or context, so that it depends on nothing else.
    """
    return _render_cached(template_name, get_language(), **variables)


@lru_cache(maxsize=MOST_KEPT)
def _render_cached(template_name: str, _language: str | None, **variables: Hashable) -> SafeString:
    return render_to_string(template_name, variables)
