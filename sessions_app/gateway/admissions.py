"""What cookies open, remembered for seconds, so that a page of a hundred requests asks the database once."""

import asyncio
from dataclasses import dataclass

from accounts.tokens import hash_secret
from sessions_app.gateway.ports import AccessUnknown, Admission, AppState, Authorizer
from sessions_app.tickets import Door

FRESH_S = 4.0
# A session on its way is looked at more often: its person waits.
WAITING_FRESH_S = 1.0
UNKNOWN_LIMIT_S = 30.0
# While the database takes longer than this, what was known goes on for UNKNOWN_LIMIT_S.
PATIENCE_S = 1.0
_SIZE_LIMIT = 4096

# Door, hash of the cookie, address of the client.
_Key = tuple[Door, str, str]


@dataclass(frozen=True, slots=True)
class _Entry:
    admission: Admission
    known_at: float


class Admissions:
    """One for each process; used from one event loop. Requests that miss at the same moment share one question."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._entries: dict[_Key, _Entry] = {}
        self._asking: dict[_Key, asyncio.Task[Admission | None]] = {}

    async def find(self, door: Door, cookie: str, ip: str) -> Admission | None:
        """What the cookie opens at this door for a client at `ip`, at most `FRESH_S` ago. Raises AccessUnknown when the database has not
        answered for longer than `UNKNOWN_LIMIT_S`."""
        if (fresh := self.known(door, cookie, ip)) is not None:
            return fresh
        key = (door, hash_secret(cookie), ip)
        entry = self._entries.get(key)
        now = asyncio.get_running_loop().time()
        is_known = entry is not None and now - entry.known_at < UNKNOWN_LIMIT_S
        try:
            async with asyncio.timeout(PATIENCE_S if is_known else None):
                return await self._ask(key, cookie)
        except (AccessUnknown, TimeoutError):
            if entry is not None and is_known:
                return entry.admission
            raise

    def known(self, door: Door, cookie: str, ip: str) -> Admission | None:
        """What the cookie is known to open, without asking; None where that is not fresh."""
        entry = self._entries.get((door, hash_secret(cookie), ip))
        if entry is None or asyncio.get_running_loop().time() - entry.known_at >= _fresh_s(entry.admission):
            return None
        return entry.admission

    def forget(self, door: Door, cookie: str, ip: str) -> None:
        """Ask again next time: what is known led nowhere."""
        self._entries.pop((door, hash_secret(cookie), ip), None)

    async def _ask(self, key: _Key, cookie: str) -> Admission | None:
        task = self._asking.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._authorizer.admit(key[0], cookie, key[2]))
            self._asking[key] = task
            task.add_done_callback(lambda done: self._note(key, done))
        return await asyncio.shield(task)

    def _note(self, key: _Key, task: asyncio.Task[Admission | None]) -> None:
        del self._asking[key]
        admission = None if task.cancelled() or task.exception() else task.result()
        if admission is None:
            if task.cancelled() or task.exception() is None:
                self._entries.pop(key, None)
            return
        if len(self._entries) >= _SIZE_LIMIT:
            self._entries.clear()
        self._entries[key] = _Entry(admission, asyncio.get_running_loop().time())


def _fresh_s(admission: Admission) -> float:
    return WAITING_FRESH_S if admission.state is AppState.WAITING else FRESH_S
