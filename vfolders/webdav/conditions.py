"""Parses and evaluates the If header of WebDAV (RFC 4918 section 10.4). Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from common.i18n import gettext as _

_PART = re.compile(
    r"""\s*(?:
        (?P<bracket>[()])
        | (?P<negation>not)\b
        | <(?P<address>[^<>\s]+)>
        | \[(?P<etag>(?:W/)?"[^"]*")\]
    )\s*""",
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)


class InvalidCondition(ValueError):
    """The header cannot be understood; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A lock token or an entity tag that a resource must have, or must not have if `is_negated`."""

    token: str = ""
    etag: str = ""
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class ConditionList:
    """Conditions that must all hold for the resource at `address`; "" is that of the request."""

    address: str
    conditions: tuple[Condition, ...]


def parse_if(header: str) -> tuple[ConditionList, ...]:
    """Return the lists of the header, of which one must hold; none for "". Raises InvalidCondition."""
    parts = _parts(header)
    lists: list[ConditionList] = []
    address, conditions, is_negated = "", list[Condition](), False
    is_inside = False
    for part in parts:
        kind, text = part.lastgroup or "", part[part.lastgroup or ""]
        if not is_inside and kind == "address":
            address = text
        elif not is_inside and text == "(":
            is_inside, conditions = True, []
        elif is_inside and kind == "negation" and not is_negated:
            is_negated = True
        elif is_inside and kind in ("address", "etag"):
            named = {"token" if kind == "address" else "etag": text}
            conditions.append(Condition(**named, is_negated=is_negated))
            is_negated = False
        elif is_inside and text == ")" and conditions and not is_negated:
            lists.append(ConditionList(address, tuple(conditions)))
            is_inside = False
        else:
            raise InvalidCondition(_("The If header cannot be understood."))
    if is_inside or (header.strip() and not lists):
        raise InvalidCondition(_("The If header cannot be understood."))
    return tuple(lists)


def submitted_tokens(lists: tuple[ConditionList, ...]) -> frozenset[str]:
    """Return all lock tokens that the header names: a request shows by it that it holds them."""
    return frozenset(each.token for one in lists for each in one.conditions if each.token)


def holds(
    lists: tuple[ConditionList, ...],
    has_token: Callable[[str, str], bool],
    has_etag: Callable[[str, str], bool],
) -> bool:
    """Return True if all conditions of one list hold, or if there is none. The functions say whether
    the resource at an address is locked with a token, or has an entity tag.
    """

    def is_true(address: str, condition: Condition) -> bool:
        is_so = has_token(address, condition.token) if condition.token else has_etag(address, condition.etag)
        return is_so is not condition.is_negated

    return not lists or any(all(is_true(one.address, each) for each in one.conditions) for one in lists)


def _parts(header: str) -> list[re.Match[str]]:
    parts, position = [], 0
    while position < len(header):
        part = _PART.match(header, position)
        if part is None:
            raise InvalidCondition(_("The If header cannot be understood."))
        parts.append(part)
        position = part.end()
    return parts
