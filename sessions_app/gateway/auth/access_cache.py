"""Cache access decisions for app cookies and tokens for a few seconds, so that a page with a
hundred requests causes one query.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from accounts.core.token_secrets import hash_secret
from sessions_app.core.app_address import AppEndpoint
from sessions_app.gateway.proxy.access_types import AccessUnknown, AppAccess, AppState, Authorizer
from sessions_app.gateway.proxy.open_connections import OpenConnections

# Measured from the start of the query, so that revoked access ends within this time.
FRESH_S = 5.0
# Sessions that are starting are checked more often, because a user waits.
WAITING_FRESH_S = 1.0
UNKNOWN_LIMIT_S = 30.0
# If the database takes longer, cached access is used, for up to UNKNOWN_LIMIT_S.
PATIENCE_S = 1.0
_SIZE_LIMIT = 4096

# App endpoint, hash of the secret, address of the client.
_Key = tuple[AppEndpoint, str, str]


@dataclass(frozen=True, slots=True)
class _Entry:
    access: AppAccess
    loaded_at: float
    unwatch: Callable[[], None]


class AccessCache:
    """Cache of access decisions. One per process, used from one event loop. Concurrent misses share
    one query. An entry is removed when its presence ends, like open connections.
    """

    def __init__(self, authorizer: Authorizer, connections: OpenConnections) -> None:
        self._authorizer = authorizer
        self._connections = connections
        self._entries: dict[_Key, _Entry] = {}
        self._pending: dict[_Key, asyncio.Task[AppAccess | None]] = {}

    async def find(self, endpoint: AppEndpoint, cookie: str, ip: str) -> AppAccess | None:
        """Return the access that the secret grants at this endpoint to a client at `ip`, at most
        `FRESH_S` old, or None. Raises AccessUnknown if the database has not answered for
        `UNKNOWN_LIMIT_S`.
        """
        if (fresh := self.known(endpoint, cookie, ip)) is not None:
            return fresh
        key = (endpoint, hash_secret(cookie), ip)
        entry = self._entries.get(key)
        now = asyncio.get_running_loop().time()
        is_known = entry is not None and now - entry.loaded_at < UNKNOWN_LIMIT_S
        try:
            async with asyncio.timeout(PATIENCE_S if is_known else None):
                return await self._load(key, cookie)
        except (AccessUnknown, TimeoutError):
            if entry is not None and is_known:
                return entry.access
            raise

    def known(self, endpoint: AppEndpoint, cookie: str, ip: str) -> AppAccess | None:
        """Return cached access without a query; None if there is none or it is stale."""
        entry = self._entries.get((endpoint, hash_secret(cookie), ip))
        if entry is None or asyncio.get_running_loop().time() - entry.loaded_at >= _fresh_s(entry.access):
            return None
        return entry.access

    def forget(self, endpoint: AppEndpoint, cookie: str, ip: str) -> None:
        """Remove an entry, so that access is checked again; used after a failed request."""
        self._drop((endpoint, hash_secret(cookie), ip))

    async def _load(self, key: _Key, cookie: str) -> AppAccess | None:
        task = self._pending.get(key)
        if task is None:
            loop = asyncio.get_running_loop()
            task = loop.create_task(self._authorizer.admit(key[0], cookie, key[2]))
            self._pending[key] = task
            task.add_done_callback(partial(self._store, key, loop.time()))
        return await asyncio.shield(task)

    def _store(self, key: _Key, loaded_at: float, task: asyncio.Task[AppAccess | None]) -> None:
        del self._pending[key]
        access = None if task.cancelled() or task.exception() else task.result()
        if access is None:
            if task.cancelled() or task.exception() is None:
                self._drop(key)
            return
        self._drop(key)
        if len(self._entries) >= _SIZE_LIMIT:
            for other in list(self._entries):
                self._drop(other)
        self._entries[key] = _Entry(access, loaded_at, self._drop_on_end(key, access))

    def _drop_on_end(self, key: _Key, access: AppAccess) -> Callable[[], None]:
        """Remove the entry when its presence ends, as long as it is fresh."""
        if access.state is not AppState.OPEN:
            return _nothing
        unwatch = self._connections.watch(access.presence, partial(self._drop, key))
        timer = asyncio.get_running_loop().call_later(FRESH_S, unwatch)

        def stop() -> None:
            timer.cancel()
            unwatch()

        return stop

    def _drop(self, key: _Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry.unwatch()


def _nothing() -> None:
    """Placeholder for entries without a presence."""


def _fresh_s(access: AppAccess) -> float:
    return WAITING_FRESH_S if access.state is AppState.WAITING else FRESH_S
