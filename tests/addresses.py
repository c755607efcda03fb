"""List the URLs of the portal's real routes, with an example value for each parameter."""

import re
from collections.abc import Iterator

from django.urls import URLPattern, URLResolver, get_resolver

VALUES = {"int": "7", "uuid": "00000000-0000-4000-8000-000000000000"}
_PARAMETER = re.compile(r"<(?:(\w+):)?\w+>")


def page_addresses() -> list[str]:
    """Return the URLs that may receive a form from a browser."""
    return [
        address
        for address, entry in _addresses(get_resolver())
        if not getattr(entry.callback, "csrf_exempt", False)
    ]


def all_addresses() -> list[str]:
    return [address for address, _entry in _addresses(get_resolver())]


def _addresses(resolver: URLResolver, before: str = "/") -> Iterator[tuple[str, URLPattern]]:
    for entry in resolver.url_patterns:
        address = before + str(entry.pattern).lstrip("^").rstrip("$").removesuffix("\\Z")
        if isinstance(entry, URLResolver):
            yield from _addresses(entry, address)
        elif "(?P" not in address:
            yield _PARAMETER.sub(lambda found: VALUES.get(found[1], "x"), address), entry
