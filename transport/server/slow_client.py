"""Slow-client guard: detects clients that stop sending their body or reading their response."""

import asyncio
from enum import Enum, auto

from transport.server.limits import Limits
from transport.server.sockets import is_connected


class Verdict(Enum):
    FINE = auto()
    SLOW = auto()  # the awaited body does not arrive
    GONE = auto()  # disconnected, or the response is not read


class SlowClientGuard:
    """Progress of one connection, judged every `Limits.pace_s` of an exchange."""

    __slots__ = ("_limits", "_unread_bytes", "_unread_s", "body_bytes", "waited_s")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.start()

    def start(self) -> None:
        """Reset for a new exchange."""
        self.body_bytes = 0  # since the last `check`
        self.waited_s = 0.0
        self._unread_bytes = -1
        self._unread_s = 0.0

    def check(self, transport: asyncio.Transport, *, awaits_body: bool, is_unread: bool) -> Verdict:
        limits = self._limits
        self.waited_s += limits.pace_s
        if not is_connected(transport):
            return Verdict.GONE
        is_slow = self.body_bytes < limits.pace_bytes
        self.body_bytes = 0
        if awaits_body and is_slow:
            return Verdict.SLOW
        unread_bytes = transport.get_write_buffer_size()
        is_stalled = is_unread and unread_bytes == self._unread_bytes
        self._unread_bytes = unread_bytes
        self._unread_s = self._unread_s + limits.pace_s if is_stalled else 0.0
        return Verdict.GONE if self._unread_s >= limits.stall_s else Verdict.FINE
