"""Interfaces between one request, the connection that it came on, and the code that answers it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from transport.server.limits import Limits


class ExchangeOwner(Protocol):
    """Client connection of an `Exchange`."""

    loop: asyncio.AbstractEventLoop
    limits: Limits
    is_write_paused: bool

    @property
    def date_header(self) -> tuple[bytes, bytes]:
        """Name and value of the Date header of a response."""

    def launch(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the application in a task that the server waits for when it stops."""

    def write(self, data: bytes) -> None:
        """Send bytes of the response."""

    async def drained(self) -> None:
        """Return when the client keeps up, or has left."""

    def want_body(self) -> None:
        """Resume reading: the application has taken all of the body received so far."""

    def on_answered(self, *, can_continue: bool) -> None:
        """End an exchange whose response is complete; `can_continue` allows another request."""

    def break_off(self, *, is_hard: bool) -> None:
        """End an exchange whose response was cut. `is_hard` resets the connection, for a response
        whose end is marked only by the connection's close.
        """

    def become_tunnel(self, head: bytes, inner: asyncio.Protocol) -> asyncio.Transport:
        """Send the head of a 101, then hand the connection to `inner` with all early bytes."""


class Watcher:
    """Callbacks to code that answers without a task; subclasses override those that they need."""

    __slots__ = ()

    def on_writable(self) -> None:
        """Continue writing: the client keeps up again."""

    def on_gone(self) -> None:
        """Stop: the client has left."""

    def on_wait(self, waited_s: float) -> None:
        """Check timeouts; called every `Limits.pace_s` of the exchange."""


class Tunnel(Protocol):
    """Connection that has switched from HTTP to another protocol."""

    def close(self, code: int, reason: str) -> None:
        """Send a close code and its reason, then end."""
