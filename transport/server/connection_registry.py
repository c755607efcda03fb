"""Registry of the connections of a server: enforces limits and, every second, deadlines."""

import asyncio
import ipaddress
from collections import Counter
from typing import Protocol

from transport.server.limits import Limits

SWEEP_S = 1.0


class RegisteredConnection(Protocol):
    """Connection in the registry. `on_deadline` is called at `deadline` (event loop time) and
    closes it or sets a new one.
    """

    deadline: float

    @property
    def is_idle(self) -> bool:
        """True if it waits for its first or next request."""

    def on_deadline(self) -> None: ...

    def abort(self) -> None:
        """Close immediately."""


class ConnectionRegistry:
    """Connections of one server by peer, for one event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._connections: dict[RegisteredConnection, str] = {}
        self._peers: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: RegisteredConnection, address: str) -> bool:
        """Register a connection. Returns False if the peer has too many ("" is not counted), or if
        the total is reached and no connection is idle; the idle one with the earliest deadline is
        closed to make room.
        """
        peer = _peer_of(address)
        if peer and self._peers[peer] >= self._limits.connections_of_peer:
            return False
        if len(self._connections) >= self._limits.connections and not self._make_room():
            return False
        self._connections[connection] = peer
        self._peers[peer] += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
        return True

    def remove(self, connection: RegisteredConnection) -> None:
        peer = self._connections.pop(connection, None)
        if peer is None:
            return
        self._peers[peer] -= 1
        if not self._peers[peer]:
            del self._peers[peer]

    def _make_room(self) -> bool:
        idle = [connection for connection in self._connections if connection.is_idle]
        if not idle:
            return False
        oldest = min(idle, key=lambda connection: connection.deadline)
        self.remove(oldest)
        oldest.abort()
        return True

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in [connection for connection in self._connections if connection.deadline <= now]:
            connection.on_deadline()
        self._timer = loop.call_later(SWEEP_S, self._sweep) if self._connections else None


def _peer_of(address: str) -> str:
    """Return the address, or for IPv6 its /64 network, which one household gets as a whole."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address
