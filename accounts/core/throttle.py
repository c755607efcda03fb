"""How often a password, a code or a mail may be asked for: by one place, by one address, for one account. Pure.

Whoever guesses runs into a bound, and no stranger can keep the owner of an account out: what strangers use up does not count
for a browser in which that account was signed in lately.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from ipaddress import IPv6Address, ip_address, ip_network
from types import MappingProxyType

IPV6_PREFIX = 64  # what one customer has to choose from
UNKNOWN = "unknown"


class Purpose(StrEnum):
    PASSWORD = "password"
    CODE = "code"  # of a second factor
    RESET = "reset"  # a mail with a link for another password
    PROVIDER = "provider"  # a way to an identity provider, which Berth asks first
    SIGN_UP = "sign_up"  # a mail with a link that makes an account
    JOIN = "join"  # an account, by an invitation or such a link


class Limit(StrEnum):
    """What is counted: attempts at one account from one place, from one address, and at one account from everywhere."""

    PLACE = "place"
    ADDRESS = "address"
    ACCOUNT = "account"


@dataclass(frozen=True, slots=True)
class Rate:
    """`burst` attempts at once, and one more after each `refill`."""

    burst: int
    refill: timedelta

    @property
    def span(self) -> timedelta:
        """After so long nothing of what was used up is left."""
        return self.burst * self.refill


GUESSES = MappingProxyType(
    {
        Limit.PLACE: Rate(5, timedelta(minutes=1)),
        Limit.ADDRESS: Rate(30, timedelta(seconds=6)),
        Limit.ACCOUNT: Rate(50, timedelta(minutes=15)),
    }
)
MAILS = MappingProxyType(
    {
        Limit.PLACE: Rate(3, timedelta(minutes=10)),
        Limit.ADDRESS: Rate(20, timedelta(seconds=30)),
        Limit.ACCOUNT: Rate(10, timedelta(minutes=30)),
    }
)
WAYS = MappingProxyType({limit: Rate(60, timedelta(seconds=2)) for limit in (Limit.PLACE, Limit.ADDRESS)})
SIGN_UPS = MappingProxyType(
    {
        Limit.PLACE: Rate(3, timedelta(minutes=20)),
        Limit.ADDRESS: Rate(20, timedelta(seconds=3)),
        Limit.ACCOUNT: Rate(3, timedelta(minutes=20)),
    }
)
ACCOUNTS = MappingProxyType({limit: Rate(20, timedelta(seconds=3)) for limit in (Limit.PLACE, Limit.ADDRESS)})
RATES: Mapping[Purpose, Mapping[Limit, Rate]] = MappingProxyType(
    {
        Purpose.PASSWORD: GUESSES, Purpose.CODE: GUESSES, Purpose.RESET: MAILS, Purpose.PROVIDER: WAYS,
        Purpose.SIGN_UP: SIGN_UPS, Purpose.JOIN: ACCOUNTS,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Whence:
    """From where somebody tries: their network, the browser if the account was signed in there lately ("" if not), and
    whether it was from that network."""

    network: str
    device: str = ""
    is_known_network: bool = False


def network_of(ip: str) -> str:
    """What counts as one address: of version 6 the network that one customer has. UNKNOWN for what is no address."""
    try:
        address = ip_address(ip)
    except ValueError:
        return UNKNOWN
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return str(address.ipv4_mapped)
    if isinstance(address, IPv6Address):
        return str(ip_network(f"{address}/{IPV6_PREFIX}", strict=False))
    return str(address)


def counted(purpose: Purpose, account: str, whence: Whence) -> list[tuple[Limit, str]]:
    """On which counts an attempt stands, the narrowest first: [(limit, key)]. A key tells nobody what was typed."""
    if whence.device:
        return [(Limit.PLACE, _key(purpose, Limit.PLACE, account, whence.device))]
    counts = [
        (Limit.PLACE, _key(purpose, Limit.PLACE, account, whence.network)),
        (Limit.ADDRESS, _key(purpose, Limit.ADDRESS, "", whence.network)),
    ]
    if not whence.is_known_network:
        counts.append((Limit.ACCOUNT, _key(purpose, Limit.ACCOUNT, account, "")))
    return [(limit, key) for limit, key in counts if limit in RATES[purpose]]


def _key(purpose: Purpose, limit: Limit, account: str, place: str) -> str:
    return sha256(repr((purpose.value, limit.value, account, place)).encode()).hexdigest()
