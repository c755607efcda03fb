"""State shared by all forwarded requests of a process: timeouts and the connection pool."""

from transport.proxy.pool import Pool
from transport.proxy.target import Timeouts


class Transport:
    """Timeouts and pool of connections to apps."""

    def __init__(self, timeouts: Timeouts | None = None) -> None:
        self.timeouts = timeouts or Timeouts()
        self.pool = Pool(self.timeouts)

    async def close(self) -> None:
        """Close idle connections; the transport can be used again."""
        self.pool.close()
