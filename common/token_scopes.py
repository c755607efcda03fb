"""Scopes of API tokens: a scope grants part of the user's own permissions, never more. Pure.

A REST view declares `token_scopes`: one of them is required; reading is also allowed with `read`.
`token_scopes_of` overrides this for single methods. A view without a declaration accepts no token.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any

from common.i18n import gettext_noop


class TokenScope(StrEnum):
    READ = "read"
    SESSIONS = "sessions"
    FOLDERS = "folders"
    ADMIN = "admin"


Scopes = frozenset[TokenScope]
NO_TOKEN: Scopes = frozenset()
EVERY_TOKEN: Scopes = frozenset(TokenScope)
FOR_SESSIONS: Scopes = frozenset({TokenScope.SESSIONS})
FOR_FOLDERS: Scopes = frozenset({TokenScope.FOLDERS})
FOR_ADMIN: Scopes = frozenset({TokenScope.ADMIN})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

TITLES = {
    TokenScope.READ: gettext_noop("See everything that you see, and change nothing"),
    TokenScope.SESSIONS: gettext_noop("Start, use and stop sessions"),
    TokenScope.FOLDERS: gettext_noop("Create, fill and delete folders"),
    TokenScope.ADMIN: gettext_noop("Change all else: your keys, and people and projects that you administer"),
}


def sufficient_scopes(view: Any, method: str) -> Scopes:
    """Return the scopes of which a token needs one for `method` of a view; empty if none may."""
    method = "GET" if method in SAFE_METHODS else method
    exceptions: Mapping[str, Scopes] = getattr(view, "token_scopes_of", {})
    declared: Scopes = getattr(view, "token_scopes", NO_TOKEN)
    if method in exceptions:
        return exceptions[method]
    return declared | {TokenScope.READ} if declared and method == "GET" else declared


def may(scopes: Iterable[str], sufficient: Scopes) -> bool:
    return not sufficient.isdisjoint(scopes)


def in_order(scopes: Collection[str]) -> list[str]:
    """Return the scopes without repeats, ordered. Raises ValueError for an unknown name."""
    wanted = {TokenScope(name) for name in scopes}
    return [scope.value for scope in TokenScope if scope in wanted]
