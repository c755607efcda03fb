"""Rate limits of passwords, codes and mails: per network, per address, per account. Pure.

Guessing is limited, and attempts of strangers cannot lock out the owner of an account: they do not
count for a trusted device, in which that account signed in lately.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from ipaddress import IPv6Address, ip_address, ip_network
from types import MappingProxyType

IPV6_PREFIX = 64  # size of one customer's network
UNKNOWN = "unknown"


class Purpose(StrEnum):
    PASSWORD = "password"
    CODE = "code"  # second factor
    RESET = "reset"  # mail with a link to reset the password
    PROVIDER = "provider"  # redirect to an identity provider, for which Berth contacts it first
    SIGN_UP = "sign_up"  # mail with a link to create an account
    JOIN = "join"  # account created by an invitation or sign-up link


class Limit(StrEnum):
    """Counted attempts: one account from one place, one address, and one account from
    everywhere.
    """

    PLACE = "place"
    ADDRESS = "address"
    ACCOUNT = "account"


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate limit of `burst` attempts at once, and one more after each `refill`."""

    burst: int
    refill: timedelta

    @property
    def span(self) -> timedelta:
        """Time after which all attempts are available again."""
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
    """Origin of an attempt: network, trusted device ("" if none), and true if the account signed in
    from that network before.
    """

    network: str
    device: str = ""
    is_known_network: bool = False


def network_of(ip: str) -> str:
    """Return the network that counts as one address: the address itself for IPv4, the /64 prefix
    for IPv6; UNKNOWN for an invalid address.
    """
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
    """Return the counts that an attempt adds to as [(limit, key)], narrowest first. Keys are hashes
    and do not reveal the input.
    """
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
