"""All connections of one server: counted, and looked at each second for those whose time is over."""

import asyncio
import ipaddress
from collections import Counter
from typing import Protocol

from transport.server.limits import Limits

SWEEP_S = 1.0


class Guest(Protocol):
    """A connection. At its `deadline` (in the loop's time) it is told so, and closes or sets another."""

    deadline: float

    @property
    def is_idle(self) -> bool:
        """Whether it waits for its first or next request."""

    def on_deadline(self) -> None: ...

    def leave(self) -> None:
        """Close at once."""


class Lobby:
    """Belongs to one event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._guests: dict[Guest, str] = {}
        self._peers: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._guests)

    def enter(self, guest: Guest, address: str) -> bool:
        """Count a connection in. False where the peer ("" for one that is not counted) has too many, or where all are too
        many and none of them is idle: the one whose time ends first makes room."""
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
    """One peer is one address, or all 2^64 that one household gets of version 6."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address
