"""Filter and rename cookies between browsers and apps. Pure.

Browsers share cookies between all ports of a host: apps opened by port share them with the portal
and each other. App hosts have separate cookies, but each can set cookies for all of them with
`Domain`. Therefore HttpOnly cookies of apps are renamed and signed for their endpoint: other ports
do not receive them, and no app can forge one for another. Cookies that scripts can read cannot be
separated.
"""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass

from common.http.cookies import has_attribute, joined, pairs, set_cookie_name

# Apps can neither read nor set cookies with these prefixes.
OWN_PREFIXES = (b"berth", b"__host-berth", b"__secure-berth")
_SIGNATURE_LENGTH = 24
MAX_NAMES = 12
MAX_COOKIE_BYTES = 1024


def is_own_name(name: bytes) -> bool:
    """Return True if a cookie of this name belongs to the portal or the gateway. A cookie without
    name can imitate any other, because it is sent without its leading "=".
    """
    return name.lower().startswith(OWN_PREFIXES) or not name


class CookieNameRegistry:
    """Record of the HttpOnly cookie names of each port, limited in number and size. Scripts cannot
    delete such cookies, so the total per port must stay below the size limit of requests.
    """

    def __init__(self) -> None:
        self._names: dict[int, set[bytes]] = {}

    def has_room_for(self, port: int, name: bytes, value: bytes) -> bool:
        names = self._names.setdefault(port, set())
        is_known = name in names
        if len(name) + len(value) > MAX_COOKIE_BYTES or (not is_known and len(names) >= MAX_NAMES):
            return False
        names.add(name)
        return True


@dataclass(frozen=True, slots=True)
class AppCookies:
    """Cookie policy of one endpoint: a port, or the label of a host (then `port` is 0)."""

    key: bytes
    registry: CookieNameRegistry
    port: int = 0
    label: str = ""

    def to_app(self, cookie: bytes) -> bytes:
        given = list(pairs(cookie))
        signed = dict(found for name, value in given if (found := self._read(name, value)))
        plain = [(name, value) for name, value in given if not is_own_name(name) and name not in signed]
        return joined([*signed.items(), *plain])

    def from_app(self, set_cookie: bytes) -> tuple[bytes, ...]:
        name = set_cookie_name(set_cookie)
        if is_own_name(name):
            return ()
        value = set_cookie.partition(b";")[0].partition(b"=")[2].strip(b" \t")
        if has_attribute(set_cookie, b"httponly"):
            is_kept = self._has_room_for(name, value)
            return (self._renamed(name, value, set_cookie),) if is_kept else ()
        if has_attribute(set_cookie, b"max-age") or has_attribute(set_cookie, b"expires"):
            # Apps often omit HttpOnly when they delete a cookie that was set with it.
            is_kept = self._has_room_for(name, value)
            renamed = self._renamed(name, value, set_cookie) + b"; HttpOnly"
            return (set_cookie, renamed) if is_kept else (set_cookie,)
        return (set_cookie,)

    def _has_room_for(self, name: bytes, value: bytes) -> bool:
        return not self.port or self.registry.has_room_for(self.port, name, value)

    @property
    def _prefix(self) -> bytes:
        return b"berth-%d-" % self.port

    def _renamed(self, name: bytes, value: bytes, set_cookie: bytes) -> bytes:
        _, separator, attributes = set_cookie.partition(b";")
        signed = self._prefix + name + b"=" + value + b"." + self._signature(name, value)
        return signed + separator + attributes

    def _read(self, name: bytes, value: bytes) -> tuple[bytes, bytes] | None:
        """Return the app's (name, value) of a cookie renamed for this endpoint; None for any other cookie."""
        if not name.startswith(self._prefix):
            return None
        own_name, (own_value, _, signature) = name[len(self._prefix) :], value.rpartition(b".")
        is_ours = hmac.compare_digest(signature, self._signature(own_name, own_value))
        return (own_name, own_value) if own_name and is_ours else None

    def _signature(self, name: bytes, value: bytes) -> bytes:
        text = b"%d\0%b\0%b\0%b" % (self.port, self.label.encode(), name, value)
        digest = hmac.new(self.key, text, hashlib.sha256).digest()
        return urlsafe_b64encode(digest)[:_SIGNATURE_LENGTH]
