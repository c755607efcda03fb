"""Server names by which the gateway tells a relay where to connect. Pure.

`8888-10-213-0-2.a7.relay.berth` is port 8888 of 10.213.0.2 at the relay of agent 7. A relay has a
certificate for the names of its own agent only.
"""

from ipaddress import IPv4Address, IPv4Network

SESSION_PREFIX = 28
"""Prefix length of the network of a session (`NetworkSpec.prefix`)."""


def relay_domain(agent_id: int) -> str:
    """Return the domain of the names of one agent's relay."""
    return f"a{agent_id}.relay.berth"


def server_name(agent_id: int, host: str, port: int) -> str:
    """Return the server name of a port of a container."""
    return f"{port}-{host.replace('.', '-')}.{relay_domain(agent_id)}"


def is_session_address(text: str, pool: str) -> bool:
    """Return True for an address of the pool that a container can have: not the bridge of a network,
    which is the machine itself, and no network or broadcast address.
    """
    try:
        address, network = IPv4Address(text), IPv4Network(pool)
    except ValueError:
        return False
    size = 2 ** (32 - SESSION_PREFIX)
    return address in network and int(address) % size not in (0, 1, size - 1)
