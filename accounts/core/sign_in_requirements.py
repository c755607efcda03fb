"""Requirements after sign-in: allowed networks, second factor, password change. Pure."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from accounts.core.roles import Role
from common.i18n import gettext as _
from common.values.text import quoted

MOST_NETWORKS = 50


class SecondFactor(StrEnum):
    """Users of a domain who must have a second factor."""

    OPTIONAL = "optional"
    ADMINS = "admins"
    EVERYBODY = "everybody"


class RequiredAction(StrEnum):
    """Action required of a signed-in user before anything else."""

    ADDRESS = "address"  # the client's address is not allowed
    PASSWORD = "password"
    SECOND_FACTOR = "second_factor"


def needs_second_factor(policy: str, role: str) -> bool:
    return policy == SecondFactor.EVERYBODY or (policy == SecondFactor.ADMINS and role != Role.USER)


def parse_networks(lines: Collection[str]) -> list[str]:
    """Return networks (10.0.0.0/8) or single addresses in canonical form, without host bits,
    duplicates and empty lines. Raises ValueError with a sentence.
    """
    networks = list(dict.fromkeys(str(_parse_network(line.strip())) for line in lines if line.strip()))
    if len(networks) > MOST_NETWORKS:
        raise ValueError(
            _("{count} networks are too many: give at most {most}.").format(
                count=len(networks), most=MOST_NETWORKS
            )
        )
    return networks


def is_allowed_from(ip: str, networks: Sequence[str]) -> bool:
    """Return true if `ip` is in one of the networks. An empty list allows all; an invalid address
    is allowed only by an empty list.
    """
    if not networks:
        return True
    try:
        address = ip_address(ip)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return any(address in ip_network(network) for network in networks)


def _parse_network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise ValueError(
            _("{text} is no network. Write it like 192.0.2.0/24 or 2001:db8::/32.").format(text=quoted(text))
        ) from error
