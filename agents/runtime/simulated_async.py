"""The event loop's side of an engine in memory."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime

from agents.runtime.base import ContainerGone, ContainerStatus
from agents.runtime.base_async import AsyncRuntime, Shell
from agents.runtime.simulated import SimulatedRuntime, last_lines

LOG_POLL_S = 0.02


class SimulatedAsyncRuntime(AsyncRuntime):
    """Looks into a SimulatedRuntime; its shells echo."""

    def __init__(self, runtime: SimulatedRuntime) -> None:
        self._runtime = runtime

    async def open_shell(
        self,
        name: str,
        *,
        argv: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        user: str = "",
        columns: int = 80,
        rows: int = 24,
    ) -> Shell:
        state = self._runtime.inspect_container(name)
        if state is None or state.status is not ContainerStatus.RUNNING:
            raise ContainerGone(f"Container {name} is not running")
        return EchoShell()

    async def follow_logs(
        self, name: str, *, tail: int | None = None, since: datetime | None = None
    ) -> AsyncGenerator[bytes, None]:
        output, is_open = self._runtime.output_of(name)
        sent = len(output)
        if seen := last_lines(output, tail):
            yield seen
        while is_open:
            await asyncio.sleep(LOG_POLL_S)
            output, is_open = self._runtime.output_of(name)
            if len(output) > sent:
                yield output[sent:]
                sent = len(output)

    async def close(self) -> None:
        return


class EchoShell(Shell):
    """Gives back what is typed; a typed `exit` ends it with code 0."""

    def __init__(self) -> None:
        self._echo: asyncio.Queue[bytes] = asyncio.Queue()
        self._exit_code: int | None = None
        self._has_ended = False

    async def read(self) -> bytes:
        return b"" if self._has_ended and self._echo.empty() else await self._echo.get()

    async def write(self, data: bytes) -> None:
        if self._has_ended:
            return
        self._echo.put_nowait(data)
        if data.strip() == b"exit":
            self._exit_code = 0
            await self.close()

    async def resize(self, columns: int, rows: int) -> None:
        return

    async def exit_code(self) -> int | None:
        return self._exit_code

    async def close(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._echo.put_nowait(b"")
