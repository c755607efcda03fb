"""Simulated engine for the event loop."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from weakref import WeakKeyDictionary

from agents.runtime.docker.log_entries import START, LogPart, LogPosition
from agents.runtime.port import ContainerGone, ContainerStatus
from agents.runtime.port_async import AsyncRuntime, Channel, Process, ProcessSpec
from agents.runtime.port_files import ContainerFiles
from agents.runtime.simulated.files import SimulatedFiles, SimulatedTree
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.runtime.simulated.values import make_log
from agents.runtime.usage import ContainerUsage

LOG_POLL_S = 0.02
NO_SUCH_PROGRAM = 127


_trees: WeakKeyDictionary[SimulatedRuntime, dict[str, SimulatedTree]] = WeakKeyDictionary()


class SimulatedAsyncRuntime(AsyncRuntime):
    """AsyncRuntime on top of a SimulatedRuntime.
    Processes echo their input; each container has a file tree, shared by all event loops.
    """

    def __init__(self, runtime: SimulatedRuntime) -> None:
        self._runtime = runtime
        self._trees = _trees.setdefault(runtime, {})
        self._processes: dict[str, list[EchoProcess]] = {}

    async def open_process(self, name: str, spec: ProcessSpec) -> Process:
        self._require_running(name)
        process = EchoProcess(spec)
        self._processes.setdefault(name, []).append(process)
        return process

    async def end_owned_processes(self, name: str, owner: str) -> None:
        for process in self._processes.get(name, []):
            if process.spec.owner.startswith(owner):
                await process.close()

    async def running_containers(self, labels: Mapping[str, str]) -> list[str]:
        found = self._runtime.list_containers(labels)
        return [state.name for state in found if state.status is ContainerStatus.RUNNING]

    async def measure_container(self, name: str) -> ContainerUsage:
        await asyncio.sleep(self._runtime.delay_s)
        return self._runtime.usage_of(name)

    def files(self, name: str) -> ContainerFiles:
        tree = self._trees.setdefault(name, SimulatedTree())
        return SimulatedFiles(tree, lambda: self._require_running(name))

    async def follow_logs(
        self, name: str, position: LogPosition = START, *, has_previews: bool = False
    ) -> AsyncGenerator[LogPart, None]:
        is_open = True
        while is_open:
            output, is_open = self._runtime.output_of(name)
            for part in make_log(output).parts_after(position):
                position = part.position
                yield part
            if is_open:
                await asyncio.sleep(LOG_POLL_S)

    async def read_last_line(self, name: str) -> bytes:
        await asyncio.sleep(self._runtime.delay_s)
        output, _ = self._runtime.output_of(name)
        return output[: output.rfind(b"\n") + 1].rstrip(b"\n").rpartition(b"\n")[2]

    async def close(self) -> None:
        return

    def _require_running(self, name: str) -> None:
        state = self._runtime.inspect_container(name)
        if state is None or state.status is not ContainerStatus.RUNNING:
            raise ContainerGone(f"Container {name} is not running")


class EchoProcess(Process):
    """A process that echoes its input and ends when the input ends.

    A line `exit 7`, or `exit 7` as argv, ends it with that code; argv `complain WORDS` writes WORDS
    to stderr and ends with 1. Any other program ends with 127.
    """

    def __init__(self, spec: ProcessSpec) -> None:
        self.spec = spec
        self.sizes = [(spec.columns, spec.rows)]
        self.signals: list[str] = []
        self.is_left = False
        self._said: asyncio.Queue[tuple[Channel, bytes]] = asyncio.Queue()
        self._exit_code: int | None = None
        self._has_ended = False
        match spec.argv:
            case () | ("echo",):
                pass
            case ("exit", code):
                self._end(int(code))
            case ("complain", *words):
                self._said.put_nowait((Channel.ERRORS, " ".join(words).encode()))
                self._end(1)
            case _:
                self._end(NO_SUCH_PROGRAM)

    async def read(self) -> tuple[Channel, bytes]:
        if self._has_ended and self._said.empty():
            return Channel.OUTPUT, b""
        return await self._said.get()

    def write(self, data: bytes) -> None:
        if self._has_ended or not data:
            return
        self._said.put_nowait((Channel.OUTPUT, data))
        word, _, code = data.strip().partition(b" ")
        if word == b"exit":
            self._end(int(code or 0))

    @property
    def unwritten_bytes(self) -> int:
        return 0

    async def drain(self) -> None:
        return

    async def end_input(self) -> None:
        if not self.spec.has_terminal:
            self._end(0)

    async def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    async def signal(self, name: str) -> None:
        self.signals.append(name)
        if name in ("HUP", "INT", "QUIT", "TERM", "KILL"):
            self._end(None)

    async def exit_code(self) -> int | None:
        return self._exit_code

    async def close(self) -> bool:
        self._end(None)
        return True

    def leave(self) -> None:
        self.is_left = True

    def _end(self, code: int | None) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._exit_code = code
            self._said.put_nowait((Channel.OUTPUT, b""))
