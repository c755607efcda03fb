"""Parses the XML bodies of WebDAV requests (RFC 4918 section 14). Pure.

Documents with a DTD are refused, so that there are no entities to expand or to fetch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from xml.etree.ElementTree import Element, ParseError, tostring

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from common.i18n import gettext as _

MAX_BODY_BYTES = 256 * 1024
MAX_LEVELS = 32
MAX_PROPERTIES = 200
MAX_VALUE_CHARACTERS = 8192
MAX_NAME_CHARACTERS = 400
DAV = "{DAV:}"


class InvalidBody(ValueError):
    """The body is not the XML that the method takes; the message is a sentence."""


class Wish(Enum):
    """Properties that a PROPFIND asks for."""

    ALL = auto()
    NAMES = auto()
    SOME = auto()


@dataclass(frozen=True, slots=True)
class PropFind:
    """`names` are the properties of SOME, and those that are wanted beside ALL."""

    wish: Wish
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PropertyUpdate:
    """A property to set to its element `xml`, or to remove ("")."""

    name: str
    xml: str


@dataclass(frozen=True, slots=True)
class LockRequest:
    """A lock to make. `owner` is the client's own XML about who locks, "" for none."""

    is_exclusive: bool
    owner: str


def parse_propfind(body: bytes) -> PropFind:
    """Return the properties wanted; those of an empty body are all. Names are like "{DAV:}getetag".
    Raises InvalidBody.
    """
    if not body:
        return PropFind(Wish.ALL)
    root = _parse(body, "propfind")
    parts = {part.tag: part for part in root}
    if f"{DAV}propname" in parts:
        return PropFind(Wish.NAMES)
    if f"{DAV}allprop" in parts:
        return PropFind(Wish.ALL, _names(parts.get(f"{DAV}include")))
    if f"{DAV}prop" in parts:
        return PropFind(Wish.SOME, _names(parts[f"{DAV}prop"]))
    raise InvalidBody(_("The body asks for no properties."))


def parse_proppatch(body: bytes) -> tuple[PropertyUpdate, ...]:
    """Return the updates in the order in which they are to be made. Raises InvalidBody."""
    updates = []
    for change in _parse(body, "propertyupdate"):
        if change.tag not in (f"{DAV}set", f"{DAV}remove"):
            continue
        for element in change.iterfind(f"{DAV}prop/*"):
            xml = _xml(element) if change.tag == f"{DAV}set" else ""
            updates.append(PropertyUpdate(_name(element), xml))
    if not 0 < len(updates) <= MAX_PROPERTIES:
        raise InvalidBody(_("The body must change 1 to {count} properties.").format(count=MAX_PROPERTIES))
    return tuple(updates)


def parse_lock(body: bytes) -> LockRequest:
    """Return the lock asked for. Raises InvalidBody."""
    root = _parse(body, "lockinfo")
    scopes = {scope.tag for scope in root.iterfind(f"{DAV}lockscope/*")}
    is_write = root.find(f"{DAV}locktype/{DAV}write") is not None
    if not is_write or len(scopes) != 1 or not scopes <= {f"{DAV}exclusive", f"{DAV}shared"}:
        raise InvalidBody(_("There are exclusive and shared locks against writing."))
    owner = root.find(f"{DAV}owner")
    return LockRequest(f"{DAV}exclusive" in scopes, "" if owner is None else _xml(owner))


def _parse(body: bytes, expected: str) -> Element:
    try:
        root: Element = fromstring(body, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, LookupError) as error:
        raise InvalidBody(_("The body is not well-formed XML without a DTD.")) from error
    _check_levels(root)
    if root.tag != DAV + expected:
        raise InvalidBody(_("The body must be a {name} of WebDAV.").format(name=expected))
    return root


def _check_levels(root: Element) -> None:
    """Refuse nesting that would exhaust recursive code. Raises InvalidBody."""
    level: Sequence[Element] = [root]
    for _depth in range(MAX_LEVELS):
        level = [child for element in level for child in element]
        if not level:
            return
    raise InvalidBody(_("The body has more than {count} levels.").format(count=MAX_LEVELS))


def _names(prop: Element | None) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(_name(element) for element in ([] if prop is None else prop)))
    if len(names) > MAX_PROPERTIES:
        raise InvalidBody(_("The body names more than {count} properties.").format(count=MAX_PROPERTIES))
    return names


def _name(element: Element) -> str:
    if len(element.tag) > MAX_NAME_CHARACTERS:
        raise InvalidBody(_("The name of a property is too long."))
    return element.tag


def _xml(element: Element) -> str:
    """Return the element as XML that declares its own namespaces."""
    element.tail = None
    xml = tostring(element, encoding="unicode")
    if len(xml) > MAX_VALUE_CHARACTERS:
        raise InvalidBody(
            _("The value of a property is longer than {count} characters.").format(count=MAX_VALUE_CHARACTERS)
        )
    return xml
