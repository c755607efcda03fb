"""Who keeps the processes that this web process started in sessions, so that none outlives it.

Each such process carries the name of its keeper. A keeper belongs to a life: one run of one web process, which holds a file
in the data directory locked for as long. The kernel lets go of the lock however the process ends, so whether a life is over
is known at once and for certain, without a clock, a database or Redis. What a life left behind is ended by any web process
on the same data directory.
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

import structlog
from django.conf import settings

from agents.models import Agent
from agents.runtime.port import RuntimeFault
from agents.runtime.port_async import Process
from agents.selectors import async_runtime_of
from sessions_app.core.container_spec import INSTALLATION_LABEL
from sessions_app.gateway.auth.authorizer import in_database
from sessions_app.gateway.proxy.interfaces import AccessUnknown

log = structlog.get_logger(__name__)

SWEEP_S = 60
NAME_BYTES = 8


class Life:
    """A locked file, named for one run of one web process."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = token_hex(NAME_BYTES)
        self._directory = directory
        self._path = directory / self.name
        hidden = directory / f".{self.name}"
        self._file = os.open(hidden, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        hidden.rename(self._path)  # nobody sees it before it is locked

    def end(self) -> None:
        """Nothing of this life is left anywhere."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)

    def earlier_lives(self) -> list[Path]:
        """The files of lives that are over."""
        others = [path for path in self._directory.glob("[!.]*") if path != self._path]
        return [path for path in others if _is_over(path)]


class Keeper:
    """Sees to the end of one process, in `container` on `agent`."""

    def __init__(self, name: str, agent: Agent, container: str) -> None:
        self.name = name
        self.agent = agent
        self.container = container
        self.is_done = False
        self._settling: asyncio.Task[None] | None = None

    async def settle(self, let_go: Coroutine[Any, Any, None]) -> None:
        """Await `let_go`, which calls `end` or `leave`. It runs on when the caller is cancelled, and until then no sweep
        ends the process."""
        self._settling = asyncio.get_running_loop().create_task(let_go)
        await asyncio.shield(self._settling)

    @property
    def is_settling(self) -> bool:
        return self._settling is not None and not self._settling.done()

    async def end(self, process: Process) -> None:
        """Hang up. Where the engine refuses, a later sweep ends the process."""
        self.is_done = await process.close()

    def leave(self, process: Process) -> None:
        """Close the connection to the process without hanging up: it goes on until its container stops."""
        process.leave()
        self.is_done = True


class Keepers:
    """One for each web process; used from one event loop."""

    def __init__(self, directory: Path) -> None:
        self.life = Life(directory)
        self._open: dict[str, Keeper] = {}
        self._left: dict[str, Keeper] = {}
        self._started = 0
        self._sweeper: asyncio.Task[None] | None = None

    @contextmanager
    def keep(self, agent: Agent, container: str) -> Iterator[Keeper]:
        """A keeper for one process: what it cannot end is ended by a later sweep."""
        self._started += 1
        keeper = Keeper(f"{self.life.name}.{self._started}.", agent, container)
        self._open[keeper.name] = keeper
        try:
            yield keeper
        finally:
            del self._open[keeper.name]
            if not keeper.is_done:
                self._left[keeper.name] = keeper

    async def start(self) -> None:
        """Sweeps now and each minute."""
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep_for_ever())

    async def stop(self) -> None:
        """Ends what is left. The life's file stays if something may still run: a later life looks after it."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self._end_left()
        if not self._left and not self._open:
            self.life.end()

    async def sweep(self) -> None:
        """Ends what keepers of earlier lives left, on all machines, and what ours could not end."""
        await self._end_left()
        earlier = self.life.earlier_lives()
        if not earlier:
            return
        agents = await in_database(lambda: list(Agent.objects.in_use()))
        is_done = [await _end_all(agent, [path.name for path in earlier]) for agent in agents]
        if all(is_done):
            for path in earlier:
                path.unlink(missing_ok=True)

    async def _end_left(self) -> None:
        for name, keeper in list(self._left.items()):
            if keeper.is_settling:
                continue
            with suppress(RuntimeFault):
                if not keeper.is_done:  # by a keeper that settled after its connection had gone
                    await async_runtime_of(keeper.agent).end_kept(keeper.container, name)
                self._left.pop(name, None)

    async def _sweep_for_ever(self) -> None:
        while True:
            try:
                await self.sweep()
            except AccessUnknown:
                log.warning("keepers.sweep_later", why="the database does not answer")
            await asyncio.sleep(SWEEP_S)


@cache
def keepers() -> Keepers:
    return Keepers(settings.DATA_DIR / "lives")


async def start_keeping() -> None:
    """When the web process begins."""
    await keepers().start()


async def stop_keeping() -> None:
    """When it ends, after the last connection."""
    await keepers().stop()


async def _end_all(agent: Agent, lives: list[str]) -> bool:
    """Whether each of the machine's containers was asked."""
    runtime = async_runtime_of(agent)
    try:
        for container in await runtime.running_containers({INSTALLATION_LABEL: settings.BERTH_INSTALLATION}):
            for life in lives:
                await runtime.end_kept(container, f"{life}.")
    except RuntimeFault as fault:
        log.warning("keepers.sweep_later", agent=agent.name, why=str(fault))
        return False
    log.info("keepers.swept", agent=agent.name, lives=lives)
    return True


def _is_over(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # somebody else cleared it away
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(file)
