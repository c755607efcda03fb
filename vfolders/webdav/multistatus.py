"""Writes the XML bodies of WebDAV responses (RFC 4918 section 14). Pure.

Text instead of an element tree: a directory of 10,000 entries is one answer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from http import HTTPStatus
from xml.sax.saxutils import escape, quoteattr

HEAD = '<?xml version="1.0" encoding="utf-8"?>\n'
CONTENT_TYPE = 'application/xml; charset="utf-8"'
OPENING = f'{HEAD}<D:multistatus xmlns:D="DAV:">\n'
CLOSING = "</D:multistatus>\n"
PIECE_CHARACTERS = 2**18

SUPPORTED_LOCKS = "".join(
    f"<D:lockentry><D:lockscope><D:{scope}/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>"
    for scope in ("exclusive", "shared")
)


@dataclass(frozen=True, slots=True)
class ActiveLock:
    """A lock as clients see it. `href` is its root, encoded; `owner` is XML."""

    token: str
    href: str
    is_exclusive: bool
    is_deep: bool
    owner: str
    timeout_s: int


def name_of(xml_name: str) -> str:
    """Return the empty element of a property like "{DAV:}getetag"; a name without namespace is as it is."""
    namespace, closing, local = xml_name.rpartition("}")
    if not closing:
        return f"<{local}/>"
    if namespace == "{DAV:":
        return f"<D:{local}/>"
    return f"<n:{local} xmlns:n={quoteattr(namespace[1:])}/>"


def text_of(text: str) -> str:
    """Return `text` as content of an element."""
    return escape(text)


def response(href: str, found: Iterable[str], missing: Sequence[str] = ()) -> str:
    """Return the response of one resource: elements of the properties that it has, and names of those
    that it has not.
    """
    parts = _propstat("".join(found), HTTPStatus.OK) + _absent(tuple(missing))
    return f"<D:response><D:href>{href}</D:href>{parts}</D:response>\n"


@lru_cache(maxsize=16)  # files lack the same, and so do directories
def _absent(names: tuple[str, ...]) -> str:
    return _propstat("".join(map(name_of, names)), HTTPStatus.NOT_FOUND) if names else ""


def update_response(href: str, statuses: Mapping[str, HTTPStatus]) -> str:
    """Return the response of a PROPPATCH: a status for each name of a property."""
    parts = "".join(
        _propstat(
            name_of(name),
            status,
            "<D:cannot-modify-protected-property/>" if status == HTTPStatus.FORBIDDEN else "",
        )
        for name, status in statuses.items()
    )
    return f"<D:response><D:href>{href}</D:href>{parts}</D:response>\n"


def multistatus(responses: Iterable[str]) -> Iterator[bytes]:
    """Yield a whole body in pieces of about PIECE_CHARACTERS."""
    waiting, length = [OPENING], len(OPENING)
    for each in responses:
        waiting.append(each)
        length += len(each)
        if length >= PIECE_CHARACTERS:
            yield "".join(waiting).encode()
            waiting, length = [], 0
    yield "".join([*waiting, CLOSING]).encode()


def lock_discovery(locks: Iterable[ActiveLock]) -> str:
    """Return the property DAV:lockdiscovery."""
    return f"<D:lockdiscovery>{''.join(map(_active_lock, locks))}</D:lockdiscovery>"


def lock_body(locks: Iterable[ActiveLock]) -> str:
    """Return the body of the answer to LOCK."""
    return f'{HEAD}<D:prop xmlns:D="DAV:">{lock_discovery(locks)}</D:prop>\n'


def utc_text(instant: datetime) -> str:
    """Return an instant as DAV:creationdate wants it (RFC 3339)."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def _propstat(properties: str, status: HTTPStatus, error: str = "") -> str:
    reason = f"<D:error>{error}</D:error>" if error else ""
    return (
        f"<D:propstat><D:prop>{properties}</D:prop>"
        f"<D:status>HTTP/1.1 {status.value} {status.phrase}</D:status>{reason}</D:propstat>"
    )


def _active_lock(lock: ActiveLock) -> str:
    return (
        "<D:activelock><D:locktype><D:write/></D:locktype>"
        f"<D:lockscope><D:{'exclusive' if lock.is_exclusive else 'shared'}/></D:lockscope>"
        f"<D:depth>{'infinity' if lock.is_deep else '0'}</D:depth>{lock.owner}"
        f"<D:timeout>Second-{lock.timeout_s}</D:timeout>"
        f"<D:locktoken><D:href>{lock.token}</D:href></D:locktoken>"
        f"<D:lockroot><D:href>{lock.href}</D:href></D:lockroot></D:activelock>"
    )
