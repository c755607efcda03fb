"""End the processes that web processes started in sessions, even after a web process was killed.

Each such process carries the name of its owner record, which belongs to a lease: one run of one web
process, which holds a locked file in the data directory. The kernel releases the lock however the
web process ends, so an expired lease is detected at once, without clock, database or Redis. Any web
process on the same data directory ends the processes of expired leases.

A machine may never come back. So web processes with other data directories do the same minutes
later: they see in Redis that nobody renews the lease.
"""

import asyncio
import fcntl
import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any

import redis
import structlog
from django.conf import settings

from agents.models import Agent
from agents.runtime.port import RuntimeFault
from agents.runtime.port_async import Process
from agents.selectors import async_runtime_of
from common.messaging.redis import quick_async_client
from sessions_app.core.container_spec import INSTALLATION_LABEL
from sessions_app.gateway.auth.authorizer import in_database
from sessions_app.gateway.proxy.access_types import AccessUnknown

log = structlog.get_logger(__name__)

SWEEP_S = 60
RENEWED_EVERY_S = 20
NAME_BYTES = 8


class ProcessLease:
    """Lease of one run of one web process: a locked file."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = token_hex(NAME_BYTES)
        self._directory = directory
        self._path = directory / self.name
        hidden = directory / f".{self.name}"
        self._file = os.open(hidden, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        hidden.rename(self._path)  # invisible to other processes until it is locked

    def end(self) -> None:
        """Delete the lease; no process of it may be left."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)

    def expired_leases(self) -> list[Path]:
        """Return the files of expired leases."""
        others = [path for path in self._directory.glob("[!.]*") if path != self._path]
        return [path for path in others if _is_expired(path)]


class SharedLeases:
    """Leases of all web processes as counters in Redis, which their owners increase.

    A lease has expired when its counter was the same at SAME_LOOKS successive looks of one process.
    So no clocks are compared, and nothing expires while Redis does not answer.
    """

    SAME_LOOKS = 4

    def __init__(self, name: str) -> None:
        self._name = name
        self._seen: dict[str, tuple[int, int]] = {}

    async def renew(self) -> None:
        with suppress(redis.RedisError):
            await quick_async_client().hincrby(self._key(), self._name, 1)

    async def expired_leases(self) -> list[str]:
        """Look once, and return the names of expired leases."""
        try:
            counts: dict[bytes, bytes] = await quick_async_client().hgetall(self._key())  # type: ignore[assignment]
        except redis.RedisError:
            return []
        looks = {}
        for raw_name, raw_count in counts.items():
            name, count = raw_name.decode(), int(raw_count)
            last_count, looked = self._seen.get(name, (-1, 0))
            looks[name] = (count, looked + 1 if count == last_count else 1)
        self._seen = looks
        return [
            name for name, (_, looked) in looks.items() if looked >= self.SAME_LOOKS and name != self._name
        ]

    async def remove(self, *names: str) -> None:
        with suppress(redis.RedisError):
            await quick_async_client().hdel(self._key(), *names)

    @staticmethod
    def _key() -> str:
        return f"berth:{settings.BERTH_INSTALLATION}:web-leases"


class ProcessOwner:
    """Owner record of one process, in `container` on `agent`."""

    def __init__(self, name: str, agent: Agent, container: str) -> None:
        self.name = name
        self.agent = agent
        self.container = container
        self.is_done = False
        self._settling: asyncio.Task[None] | None = None

    async def settle(self, release: Coroutine[Any, Any, None]) -> None:
        """Run `release`, which calls `end` or `leave`, to its end, even if the caller is cancelled.
        Until then no sweep ends the process.
        """
        self._settling = asyncio.get_running_loop().create_task(release)
        await asyncio.shield(self._settling)

    @property
    def is_settling(self) -> bool:
        return self._settling is not None and not self._settling.done()

    async def end(self, process: Process) -> None:
        """Hang up the process. If the engine refuses, a later sweep ends it."""
        self.is_done = await process.close()

    def leave(self, process: Process) -> None:
        """Close the connection to the process without hanging up: it runs until its container stops."""
        process.leave()
        self.is_done = True


class ProcessOwners:
    """Registry of process owners. One per web process, used from one event loop."""

    def __init__(self, directory: Path) -> None:
        self.lease = ProcessLease(directory)
        self._shared = SharedLeases(self.lease.name)
        self._open: dict[str, ProcessOwner] = {}
        self._left: dict[str, ProcessOwner] = {}
        self._started = 0
        self._tasks: list[asyncio.Task[None]] = []

    @contextmanager
    def new_owner(self, agent: Agent, container: str) -> Iterator[ProcessOwner]:
        """Yield an owner record for one process. If the process is not ended on exit, a later sweep
        ends it.
        """
        self._started += 1
        owner = ProcessOwner(f"{self.lease.name}.{self._started}.", agent, container)
        self._open[owner.name] = owner
        try:
            yield owner
        finally:
            del self._open[owner.name]
            if not owner.is_done:
                self._left[owner.name] = owner

    async def start(self) -> None:
        """Sweep now and every SWEEP_S, and renew the shared lease meanwhile: a sweep may take long."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._renew_forever()), loop.create_task(self._sweep_forever())]

    async def stop(self) -> None:
        """End remaining processes. The lease file stays if any may still run, so that a later sweep
        ends them.
        """
        for task in self._tasks:
            task.cancel()
        await self._end_left()
        if not self._left and not self._open:
            self.lease.end()
            await self._shared.remove(self.lease.name)

    async def renew(self) -> None:
        """Renew the lease for web processes with other data directories."""
        await self._shared.renew()

    async def sweep(self) -> None:
        """End processes of expired leases on all agents, and processes of this lease that could not
        be ended.
        """
        await self._end_left()
        files = self.lease.expired_leases()
        expired = sorted({*(path.name for path in files), *await self._shared.expired_leases()})
        if not expired:
            return
        agents = await in_database(lambda: list(Agent.objects.in_use()))
        is_done = [await _end_processes(agent, expired) for agent in agents]
        if all(is_done):
            for path in files:
                path.unlink(missing_ok=True)
            await self._shared.remove(*expired)

    async def _end_left(self) -> None:
        for name, owner in list(self._left.items()):
            if owner.is_settling:
                continue
            with suppress(RuntimeFault):
                if not owner.is_done:  # settled after its connection had gone
                    await async_runtime_of(owner.agent).end_owned_processes(owner.container, name)
                self._left.pop(name, None)

    async def _renew_forever(self) -> None:
        while True:
            await self.renew()
            await asyncio.sleep(RENEWED_EVERY_S)

    async def _sweep_forever(self) -> None:
        while True:
            try:
                await self.sweep()
            except AccessUnknown:
                log.warning("keepers.sweep_later", why="the database does not answer")
            await asyncio.sleep(SWEEP_S)


@cache
def process_owners() -> ProcessOwners:
    return ProcessOwners(settings.DATA_DIR / "lives")


async def _end_processes(agent: Agent, leases: list[str]) -> bool:
    """End the leases' processes in all containers of the agent. Returns False if the agent failed."""
    runtime = async_runtime_of(agent)
    try:
        for container in await runtime.running_containers({INSTALLATION_LABEL: settings.BERTH_INSTALLATION}):
            for lease in leases:
                await runtime.end_owned_processes(container, f"{lease}.")
    except RuntimeFault as fault:
        log.warning("keepers.sweep_later", agent=agent.name, why=str(fault))
        return False
    log.info("keepers.swept", agent=agent.name, lives=leases)
    return True


def _is_expired(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # another process has deleted it
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(file)
