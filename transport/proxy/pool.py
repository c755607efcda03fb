"""Pool of idle connections to apps, kept for a few seconds."""

import asyncio
import ssl
from collections import deque

from transport.proxy.connection import Connection
from transport.proxy.errors import UpstreamBroken, UpstreamTimeout, UpstreamUnreachable
from transport.proxy.target import Target, Timeouts

_IDLE_PER_TARGET = 32
# A relay gives up a connection that its machine refuses well within this time.
_PROBE_S = 0.5


class Pool:
    """Idle connections per target, for one event loop. Targets of different owners never share."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._idle: dict[Target, deque[Connection]] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    async def connect(self, target: Target, *, is_new: bool = False) -> Connection:
        """Return a connection to the target: the most recently used idle one, or a new one if none
        is idle or `is_new`. Raises UpstreamUnreachable, UpstreamTimeout.
        """
        if not is_new and (reused := self.reuse(target)):
            return reused
        try:
            async with asyncio.timeout(self._timeouts.connect_s):
                return await target.route.open(lambda: Connection(target), target.host, target.port)
        except TimeoutError as exc:
            raise UpstreamTimeout(f"Port {target.port} did not accept a connection in time.") from exc
        except ssl.SSLError as exc:
            raise UpstreamBroken(f"The relay of the machine cannot be used: {exc.reason}.") from exc
        except OSError as exc:
            raise UpstreamUnreachable(f"Nothing listens on port {target.port}.") from exc

    async def require_listener(self, connection: Connection) -> None:
        """Raise UpstreamUnreachable if this new connection ended without a byte because nothing
        listens on the port, which its route did not tell.
        """
        target = connection.target
        if target.route.confirms_connections or connection.has_received or connection.is_reused:
            return
        probe = await self.connect(target, is_new=True)
        if await probe.ends_within(_PROBE_S):
            raise UpstreamUnreachable(f"Nothing listens on port {target.port}.")
        probe.abort()

    def reuse(self, target: Target) -> Connection | None:
        """Return the most recently used idle connection to the target, or None."""
        idle = self._idle.get(target)
        while idle:
            connection = idle.pop()
            if connection.is_reusable:
                connection.is_reused = True
                return connection
        return None

    def release(self, connection: Connection) -> None:
        """Return a connection to the pool if it can be reused, else close it."""
        if not connection.is_reusable:
            connection.abort()
            return
        idle = self._idle.setdefault(connection.target, deque())
        if len(idle) >= _IDLE_PER_TARGET:
            idle.popleft().abort()
        connection.idle_since = asyncio.get_running_loop().time()
        idle.append(connection)
        self._schedule_sweep()

    def close(self) -> None:
        """Close all idle connections."""
        for idle in self._idle.values():
            for connection in idle:
                connection.abort()
        self._idle.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def _schedule_sweep(self) -> None:
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(self._timeouts.idle_s / 2, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        too_old = asyncio.get_running_loop().time() - self._timeouts.idle_s
        for target, idle in list(self._idle.items()):
            while idle and (idle[0].idle_since <= too_old or not idle[0].is_reusable):
                idle.popleft().abort()
            if not idle:
                del self._idle[target]
        if self._idle:
            self._schedule_sweep()


class Transport:
    """Timeouts and pool of connections to apps."""

    def __init__(self, timeouts: Timeouts | None = None) -> None:
        self.timeouts = timeouts or Timeouts()
        self.pool = Pool(self.timeouts)

    async def close(self) -> None:
        """Close idle connections; the transport can be used again."""
        self.pool.close()
