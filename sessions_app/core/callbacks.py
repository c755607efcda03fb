"""Rules of callbacks: allowed URLs and addresses, events, signature and retry interval. Pure."""

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from common.i18n import gettext as _
from common.values.text import check_text, quoted
from sessions_app.core.states import Reason, Status

MAX_URL_LENGTH = 2000
PORTS = {"http": 80, "https": 443}
FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=10), timedelta(hours=1)
TRIED_FOR = timedelta(days=1)
_NAT64 = ip_network("64:ff9b::/96")
_STOPPED = frozenset(
    {
        Reason.USER_REQUESTED,
        Reason.ADMIN_REQUESTED,
        Reason.LIFETIME_OVER,
        Reason.UNUSED,
        Reason.UNDERUSED,
        Reason.PREEMPTED,
    }
)
_SUCCEEDED = frozenset({Reason.COMMAND_FINISHED, Reason.CONTAINER_EXITED})

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Python calls these global, but they lie inside the network: Azure's wire server (instance
# metadata) and the nearest 6to4 relay.
_PROVIDER_NETWORKS: Final[Sequence[Network]] = (ip_network("168.63.129.16/32"), ip_network("192.88.99.0/24"))


class CallbackEvent(StrEnum):
    """Event of a session that is sent to a callback."""

    STARTED = "session.started"
    RETRIED = "session.retried"
    ENDED = "session.ended"


class Outcome(StrEnum):
    """Outcome of a session, for programs."""

    SUCCESS = "success"
    FAILED = "failed"
    STOPPED = "stopped"
    CANCELLED = "cancelled"


class Fault(StrEnum):
    """Reason why a callback got no HTTP answer."""

    NONE = ""
    NAME = "name"
    FORBIDDEN = "forbidden"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Target:
    """Parsed target of a callback. `path` begins with a slash and includes the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def address(self) -> Address | None:
        """IP address if the host is written as one, else None."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None


def check_callback_url(value: object) -> str:
    """Return the callback URL; "" if none is given. Raises ValueError with a sentence."""
    if value is None or value == "":
        return ""
    url = check_text(value, max_length=MAX_URL_LENGTH).strip()
    if not url:
        return ""
    if not url.isascii() or any(sign in url for sign in ' "<>\\^`{|}'):
        raise ValueError(
            _("Write letters beyond ASCII, spaces and quotes of the address as %20 and the like.")
        )
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError as error:
        raise ValueError(_invalid_url_message(url)) from error
    if parts.scheme not in PORTS or not parts.hostname or not has_port:
        raise ValueError(_invalid_url_message(url))
    if "@" in parts.netloc:
        raise ValueError(_("The address may name nobody: leave out what stands before the @."))
    if parts.fragment:
        raise ValueError(_("Leave out the # of the address and what follows."))
    return url


def _invalid_url_message(url: str) -> str:
    sentence = _("{url} is no address that can be called. Write it like {example}.")
    return sentence.format(url=quoted(url), example="https://ci.example.org/berth")


def parse_target(url: str) -> Target:
    """Return the target of a URL that `check_callback_url` has accepted."""
    parts = urlsplit(url)
    path = parts.path or "/"
    return Target(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or PORTS[parts.scheme],
        path=f"{path}?{parts.query}" if parts.query else path,
    )


class CallbackNetworks(NamedTuple):
    """Networks that may be called although they are not public, and networks that never may."""

    allowed: Sequence[Network] = ()
    forbidden: Sequence[Network] = ()


def is_callable(address: Address, networks: CallbackNetworks) -> bool:
    """Return True if the portal may connect to the address.

    It must be public or in an allowed network, and in no forbidden one. An address that embeds
    another (mapped, tunnelled, translated) is judged by both.
    """
    seen = list(_embedded_addresses(address))
    if any(each in network for each in seen for network in networks.forbidden):
        return False
    if any(each in network for each in seen for network in networks.allowed):
        return True
    return all(_is_open_internet(each) for each in seen)


def _embedded_addresses(address: Address) -> Iterator[Address]:
    yield address
    if isinstance(address, IPv4Address):
        return
    if address.ipv4_mapped:
        yield address.ipv4_mapped
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo
    if address in _NAT64:
        yield IPv4Address(int(address) & 0xFFFFFFFF)


def _is_open_internet(address: Address) -> bool:
    if isinstance(address, IPv6Address) and (address.ipv4_mapped or address in _NAT64):
        return True  # judged by the embedded IPv4 address
    if isinstance(address, IPv6Address) and address.is_site_local:
        return False
    is_special = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    return (
        address.is_global and not is_special and not any(address in network for network in _PROVIDER_NETWORKS)
    )


def event_for(from_status: str, to: str) -> CallbackEvent | None:
    """Return the event that a change of status causes; None if it causes none."""
    if to == Status.RUNNING:
        return CallbackEvent.STARTED
    if to == Status.PENDING:
        return CallbackEvent.RETRIED if from_status else None
    return CallbackEvent.ENDED if Status(to).is_terminal else None


def session_outcome(status: str, reason: str) -> Outcome:
    if status == Status.CANCELLED:
        return Outcome.CANCELLED
    if reason in _SUCCEEDED:
        return Outcome.SUCCESS
    return Outcome.STOPPED if reason in _STOPPED else Outcome.FAILED


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return HMAC-SHA256 of "<timestamp>.<body>", hexadecimal."""
    return hmac.new(secret.encode(), b"%d.%s" % (timestamp, body), hashlib.sha256).hexdigest()


def retry_delay(attempts: int) -> timedelta:
    """Return the interval before the next attempt; it doubles with each attempt (1 or more)."""
    doublings: int = 2 ** min(attempts - 1, 20)
    return min(FIRST_WAIT * doublings, LONGEST_WAIT)
