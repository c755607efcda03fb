"""Registry of all connections of one server: enforces connection
limits and, every second, deadlines.
"""

import asyncio
import ipaddress
from collections import Counter
from typing import Protocol

from transport.server.limits import Limits

SWEEP_S = 1.0


class Guest(Protocol):
    """Connection in the registry. `on_deadline` is called at `deadline` (event loop time) and
    closes it or sets a new one.
    """

    deadline: float

    @property
    def is_idle(self) -> bool:
        """True if it waits for its first or next request."""

    def on_deadline(self) -> None: ...

    def leave(self) -> None:
        """Close immediately."""


class Lobby:
    """Connections of one server by peer, for one event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._guests: dict[Guest, str] = {}
        self._peers: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._guests)

    def enter(self, guest: Guest, address: str) -> bool:
        """Register a connection. Returns False if the peer has too many ("" is not counted), or if
        the total is reached and no connection is idle; the idle one with the earliest deadline is
        closed to make room.
        """
        peer = _peer_of(address)
        if peer and self._peers[peer] >= self._limits.connections_of_peer:
            return False
        if len(self._guests) >= self._limits.connections and not self._make_room():
            return False
        self._guests[guest] = peer
        self._peers[peer] += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
        return True

    def leave(self, guest: Guest) -> None:
        peer = self._guests.pop(guest, None)
        if peer is None:
            return
        self._peers[peer] -= 1
        if not self._peers[peer]:
            del self._peers[peer]

    def _make_room(self) -> bool:
        idle = [guest for guest in self._guests if guest.is_idle]
        if not idle:
            return False
        oldest = min(idle, key=lambda guest: guest.deadline)
        self.leave(oldest)
        oldest.leave()
        return True

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for guest in [guest for guest in self._guests if guest.deadline <= now]:
            guest.on_deadline()
        self._timer = loop.call_later(SWEEP_S, self._sweep) if self._guests else None


def _peer_of(address: str) -> str:
    """Return the address, or for IPv6 its /64 network, which one household gets as a whole."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address
