"""Cache access decisions for app cookies and tokens for a few seconds, so that a page with a
hundred requests causes one query.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from accounts.core.token_secrets import hash_secret
from sessions_app.core.app_address import Door
from sessions_app.gateway.proxy.interfaces import AccessUnknown, Admission, AppState, Authorizer
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
_Key = tuple[Door, str, str]


@dataclass(frozen=True, slots=True)
class _Entry:
    admission: Admission
    asked_at: float
    unfollow: Callable[[], None]


class Admissions:
    """Cache of access decisions. One per process, used from one event loop. Concurrent misses share
    one query. An entry is removed when its presence ends, like open connections.
    """

    def __init__(self, authorizer: Authorizer, connections: OpenConnections) -> None:
        self._authorizer = authorizer
        self._connections = connections
        self._entries: dict[_Key, _Entry] = {}
        self._asking: dict[_Key, asyncio.Task[Admission | None]] = {}

    async def find(self, door: Door, cookie: str, ip: str) -> Admission | None:
        """Return the access that the secret grants at this endpoint to a client at `ip`, at most
        `FRESH_S` old, or None. Raises AccessUnknown if the database has not answered for
        `UNKNOWN_LIMIT_S`.
        """
        if (fresh := self.known(door, cookie, ip)) is not None:
            return fresh
        key = (door, hash_secret(cookie), ip)
        entry = self._entries.get(key)
        now = asyncio.get_running_loop().time()
        is_known = entry is not None and now - entry.asked_at < UNKNOWN_LIMIT_S
        try:
            async with asyncio.timeout(PATIENCE_S if is_known else None):
                return await self._ask(key, cookie)
        except (AccessUnknown, TimeoutError):
            if entry is not None and is_known:
                return entry.admission
            raise

    def known(self, door: Door, cookie: str, ip: str) -> Admission | None:
        """Return cached access without a query; None if there is none or it is stale."""
        entry = self._entries.get((door, hash_secret(cookie), ip))
        if entry is None or asyncio.get_running_loop().time() - entry.asked_at >= _fresh_s(entry.admission):
            return None
        return entry.admission

    def forget(self, door: Door, cookie: str, ip: str) -> None:
        """Remove an entry, so that access is checked again; used after a failed request."""
        self._drop((door, hash_secret(cookie), ip))

    async def _ask(self, key: _Key, cookie: str) -> Admission | None:
        task = self._asking.get(key)
        if task is None:
            loop = asyncio.get_running_loop()
            task = loop.create_task(self._authorizer.admit(key[0], cookie, key[2]))
            self._asking[key] = task
            task.add_done_callback(partial(self._note, key, loop.time()))
        return await asyncio.shield(task)

    def _note(self, key: _Key, asked_at: float, task: asyncio.Task[Admission | None]) -> None:
        del self._asking[key]
        admission = None if task.cancelled() or task.exception() else task.result()
        if admission is None:
            if task.cancelled() or task.exception() is None:
                self._drop(key)
            return
        self._drop(key)
        if len(self._entries) >= _SIZE_LIMIT:
            for other in list(self._entries):
                self._drop(other)
        self._entries[key] = _Entry(admission, asked_at, self._follow(key, admission))

    def _follow(self, key: _Key, admission: Admission) -> Callable[[], None]:
        """Remove the entry when its presence ends, as long as it is fresh."""
        if admission.state is not AppState.OPEN:
            return _nothing
        unfollow = self._connections.follow(admission.presence, partial(self._drop, key))
        timer = asyncio.get_running_loop().call_later(FRESH_S, unfollow)

        def stop() -> None:
            timer.cancel()
            unfollow()

        return stop

    def _drop(self, key: _Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry.unfollow()


def _nothing() -> None:
    """Placeholder for entries that follow no presence."""


def _fresh_s(admission: Admission) -> float:
    return WAITING_FRESH_S if admission.state is AppState.WAITING else FRESH_S
