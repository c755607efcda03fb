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
UNKNOWN_NETWORK = "unknown"


class Purpose(StrEnum):
    PASSWORD = "password"
    CODE = "code"  # second factor
    RESET = "reset"  # mail with a link to reset the password
    PROVIDER = "provider"  # redirect to an identity provider, for which Berth contacts it first
    SIGN_UP = "sign_up"  # mail with a link to create an account
    JOIN = "join"  # account created by an invitation or sign-up link
    TOKEN = "token"  # access token that is not valid; guessing one is hopeless, but costs the portal work
    LINK = "link"  # public link to a file of a folder


class AttemptLimit(StrEnum):
    """Counted attempts: one account from one place, one address, and one account from everywhere."""

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


GUESS_RATES = MappingProxyType(
    {
        AttemptLimit.PLACE: Rate(5, timedelta(minutes=1)),
        AttemptLimit.ADDRESS: Rate(30, timedelta(seconds=6)),
        AttemptLimit.ACCOUNT: Rate(50, timedelta(minutes=15)),
    }
)
MAIL_RATES = MappingProxyType(
    {
        AttemptLimit.PLACE: Rate(3, timedelta(minutes=10)),
        AttemptLimit.ADDRESS: Rate(20, timedelta(seconds=30)),
        AttemptLimit.ACCOUNT: Rate(10, timedelta(minutes=30)),
    }
)
PROVIDER_RATES = MappingProxyType(
    {limit: Rate(60, timedelta(seconds=2)) for limit in (AttemptLimit.PLACE, AttemptLimit.ADDRESS)}
)
SIGN_UP_RATES = MappingProxyType(
    {
        AttemptLimit.PLACE: Rate(3, timedelta(minutes=20)),
        AttemptLimit.ADDRESS: Rate(20, timedelta(seconds=3)),
        AttemptLimit.ACCOUNT: Rate(3, timedelta(minutes=20)),
    }
)
ACCOUNT_RATES = MappingProxyType(
    {limit: Rate(20, timedelta(seconds=3)) for limit in (AttemptLimit.PLACE, AttemptLimit.ADDRESS)}
)
TOKEN_RATES = MappingProxyType({AttemptLimit.ADDRESS: Rate(60, timedelta(seconds=2))})
LINK_RATES = MappingProxyType(
    {limit: Rate(120, timedelta(seconds=1)) for limit in (AttemptLimit.PLACE, AttemptLimit.ADDRESS)}
)
RATES: Mapping[Purpose, Mapping[AttemptLimit, Rate]] = MappingProxyType(
    {
        Purpose.PASSWORD: GUESS_RATES, Purpose.CODE: GUESS_RATES, Purpose.RESET: MAIL_RATES, Purpose.PROVIDER: PROVIDER_RATES,
        Purpose.SIGN_UP: SIGN_UP_RATES, Purpose.JOIN: ACCOUNT_RATES, Purpose.TOKEN: TOKEN_RATES,
        Purpose.LINK: LINK_RATES,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttemptOrigin:
    """Origin of an attempt: network, trusted device ("" if none), and true if the account signed in
    from that network before.
    """

    network: str
    device: str = ""
    is_known_network: bool = False


def address_network(ip: str) -> str:
    """Return the network that counts as one address: the address itself for IPv4, the /64 prefix
    for IPv6; UNKNOWN for an invalid address.
    """
    try:
        address = ip_address(ip)
    except ValueError:
        return UNKNOWN_NETWORK
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return str(address.ipv4_mapped)
    if isinstance(address, IPv6Address):
        return str(ip_network(f"{address}/{IPV6_PREFIX}", strict=False))
    return str(address)


def attempt_keys(purpose: Purpose, account: str, origin: AttemptOrigin) -> list[tuple[AttemptLimit, str]]:
    """Return the counts that an attempt adds to as [(limit, key)], narrowest first. Keys are hashes
    and do not reveal the input.
    """
    if origin.device:
        own = [(AttemptLimit.PLACE, _key(purpose, AttemptLimit.PLACE, account, origin.device))]
        return [(limit, key) for limit, key in own if limit in RATES[purpose]]
    counts = [
        (AttemptLimit.PLACE, _key(purpose, AttemptLimit.PLACE, account, origin.network)),
        (AttemptLimit.ADDRESS, _key(purpose, AttemptLimit.ADDRESS, "", origin.network)),
    ]
    if not origin.is_known_network:
        counts.append((AttemptLimit.ACCOUNT, _key(purpose, AttemptLimit.ACCOUNT, account, "")))
    return [(limit, key) for limit, key in counts if limit in RATES[purpose]]


def _key(purpose: Purpose, limit: AttemptLimit, account: str, source: str) -> str:
    return sha256(repr((purpose.value, limit.value, account, source)).encode()).hexdigest()
