"""What one process shares between all requests it forwards."""

import aiohttp

from common.proxy.pool import Pool
from common.proxy.target import Timeouts

MAX_MESSAGE_BYTES = 64 * 1024 * 1024


class Transport:
    """The pool of HTTP connections and the websocket client. Made on first use inside the event loop."""

    def __init__(self, timeouts: Timeouts | None = None) -> None:
        self.timeouts = timeouts or Timeouts()
        self.pool = Pool(self.timeouts)
        self._session: aiohttp.ClientSession | None = None

    @property
    def websockets(self) -> aiohttp.ClientSession:
        """The client for websockets: no cookies of its own, no proxy from the environment, and no kept
        connections, as a freed address may belong to another session by then."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.timeouts.connect_s),
                read_bufsize=256 * 1024,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )
        return self._session

    async def close(self) -> None:
        """Close what is idle; the transport may be used again."""
        self.pool.close()
        if self._session is not None:
            await self._session.close()
            self._session = None
