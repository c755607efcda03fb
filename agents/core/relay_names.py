"""Server names by which the gateway tells a relay where to connect. Pure.

`8888-10-213-0-2.a7.relay.berth` is port 8888 of 10.213.0.2 at the relay of agent 7. A relay has a
certificate for the names of its own agent only.
"""

from ipaddress import IPv4Address, IPv4Network

SESSION_PREFIX = 28
"""Prefix length of the network of a session (`NetworkSpec.prefix`)."""

LAST_OF_CONTAINERS = 127
"""In the /24 of a session on several machines, containers have the numbers from 1, bridges those from
254 down (`sessions_app/launch/cluster_network.py`); neither crosses the middle.
"""


def relay_domain(agent_id: int) -> str:
    """Return the domain of the names of one agent's relay."""
    return f"a{agent_id}.relay.berth"


def server_name(agent_id: int, host: str, port: int) -> str:
    """Return the server name of a port of a container."""
    return f"{port}-{host.replace('.', '-')}.{relay_domain(agent_id)}"


def is_session_address(text: str, pool: str, cluster_pool: str) -> bool:
    """Return True for an address of a pool that a container can have: not the bridge of a network,
    which is the machine itself, and no network or broadcast address. `cluster_pool` is that of sessions
    on several machines.
    """
    try:
        address = IPv4Address(text)
    except ValueError:
        return False
    if address in IPv4Network(cluster_pool):
        return 1 <= address.packed[3] <= LAST_OF_CONTAINERS
    size = 2 ** (32 - SESSION_PREFIX)
    return address in IPv4Network(pool) and int(address) % size not in (0, 1, size - 1)
