"""What one process shares between all requests it forwards."""

from transport.proxy.pool import Pool
from transport.proxy.target import Timeouts


class Transport:
    """The pool of connections to apps."""

    def __init__(self, timeouts: Timeouts | None = None) -> None:
        self.timeouts = timeouts or Timeouts()
        self.pool = Pool(self.timeouts)

    async def close(self) -> None:
        """Close what is idle; the transport may be used again."""
        self.pool.close()
