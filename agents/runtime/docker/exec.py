"""Additional processes in a container, by `docker exec`.

The engine starts such processes but has no call to end them. So each prints its pid first and
carries its owner in its environment; with either, a script in the container can end it. The pid
comes before any output of the user's program and is only used inside the same container.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agents.runtime.docker.async_http import EngineHttp, translated
from agents.runtime.docker.connection import understood
from agents.runtime.docker.encoding import RAISE_OOM_SCORE, ChannelSplitter
from agents.runtime.docker.stream import ANSWER_TIMEOUT_S, Stream
from agents.runtime.port import ContainerGone, RuntimeFault, RuntimeUnavailable
from agents.runtime.port_async import PROCESS_OWNER_VARIABLE, SIGNALS, Channel, Process, ProcessSpec

FIRST_LINE_BYTES = 2**12
END_PATIENCE_S = 5.0
END_POLL_S = 0.02
CLOSE_ATTEMPTS = 2
RESIZE_PATIENCE_S = 10.0
RESIZE_PAUSE_S = 0.1

ANNOUNCE = "printf 'PID:%s\\n' $$\n"
GO_THERE = 'cd -- "$1" || exit 126\nshift\n'
BEST_SHELL = "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi"
GIVEN = 'exec "$@"'

SIGNAL = 'kill -"$1" "-$2" 2>/dev/null || kill -"$1" "$2"'
HANG_UP = """
hang_up() {
  for pid in $*; do
    kill -HUP "-$pid" || kill -HUP "$pid"
  done
  sleep 1
  for pid in $*; do
    read -r line <"/proc/$pid/stat" || continue
    set -- ${line##*) }
    if [ "$5" = 0 ]; then kill -KILL "-$pid"; else kill -KILL "$pid"; fi
  done
} 2>/dev/null
"""
"""Hang up as a closing terminal does, and kill what ignores that. With a terminal (the seventh word
of its stat) only the process is killed, because background jobs were detached on purpose; without
one its whole group is.
"""

END_OWNED = """
kept=
for directory in /proc/[0-9]*; do
  pid=${directory#/proc/}
  [ "$pid" != 1 ] || continue
  parent=
  while read -r key value; do
    case $key in PPid:) parent=$value; break;; esac
  done <"$directory/status"
  [ "$parent" = 0 ] || continue
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in *"$1="*"$2"*) kept="$kept $pid"; break;; esac
  done <"$directory/environ"
done
[ -z "$kept" ] || hang_up $kept
"""
"""Only processes started by the engine have no parent in the container.
Their children inherit the environment and must stay.
"""


class DockerProcess(Process):
    """A process started by `docker exec`."""

    def __init__(self, http: EngineHttp, container: str, spec: ProcessSpec) -> None:
        self._http = http
        self._container = container
        self._spec = spec
        self._exec_id = ""
        self._stream: Stream | None = None
        self._channels = ChannelSplitter() if not spec.has_terminal else None
        self._read: deque[tuple[Channel, bytes]] = deque()
        self._pid = ""
        self._has_ended = False
        self._is_closed = False
        self._size = (spec.columns, spec.rows)
        self._resizing = asyncio.Lock()

    async def start(self) -> None:
        """Start the process. Raises ContainerGone. Must be closed after a failure too."""
        self._exec_id = await _made(self._http, self._container, _config(self._spec))
        start = {"Detach": False, "Tty": self._spec.has_terminal, **_console_size(self._spec)}
        self._stream, rest = await self._http.hijack(f"/exec/{self._exec_id}/start", start)
        self._take(rest)
        with translated(self._http.address):
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                self._pid = await self._announced_pid()
        if self._spec.has_terminal:
            await self.resize(self._spec.columns, self._spec.rows)

    async def read(self) -> tuple[Channel, bytes]:
        while not self._read:
            if self._stream is None or self._is_closed:
                return Channel.OUTPUT, b""
            try:
                data = await self._stream.read()
            except OSError as error:
                self._has_ended = True
                raise RuntimeUnavailable(f"Engine {self._http.address} broke off: {error}") from error
            if not data:
                self._has_ended = True
                return Channel.OUTPUT, b""
            if self._channels is None:
                return Channel.OUTPUT, data
            self._take(data)
        return self._read.popleft()

    def write(self, data: bytes) -> None:
        if self._stream is not None and not self._is_closed:
            self._stream.write(data)

    @property
    def unwritten_bytes(self) -> int:
        return 0 if self._stream is None or self._is_closed else self._stream.unwritten_bytes

    async def drain(self) -> None:
        if self._stream is not None and not self._is_closed:
            with translated(self._http.address):
                await self._stream.drain()

    async def end_input(self) -> None:
        if self._stream is not None and not self._is_closed and not self._spec.has_terminal:
            await self._stream.end_output()

    async def resize(self, columns: int, rows: int) -> None:
        """Set the terminal size, retrying while a busy engine refuses, for RESIZE_PATIENCE_S or
        until a newer size is set.
        """
        wanted = self._size = (columns, rows)
        with suppress(TimeoutError):
            async with asyncio.timeout(RESIZE_PATIENCE_S), self._resizing:
                while self._size == wanted and not self._is_closed and not await self._has_size(*wanted):
                    await asyncio.sleep(RESIZE_PAUSE_S)

    async def signal(self, name: str) -> None:
        if name not in SIGNALS:
            raise ValueError(name)
        if self._pid and not self._is_closed and (await self._state())["Running"]:
            await run_beside(self._http, self._container, self._spec.user, SIGNAL, name, self._pid)

    async def exit_code(self) -> int | None:
        """Return the exit code, waiting a little after the stream has ended because the engine
        notices the end later.
        """
        waited_s = 0.0
        while True:
            state = await self._state()
            if not state["Running"] or not self._has_ended or waited_s >= END_PATIENCE_S:
                code = state["ExitCode"]
                return code if isinstance(code, int) and not state["Running"] else None
            await asyncio.sleep(END_POLL_S)
            waited_s += END_POLL_S

    async def close(self) -> bool:
        if self._is_closed:
            return True
        self.leave()
        for _ in range(CLOSE_ATTEMPTS):
            try:
                await self._end()
                return True
            except RuntimeUnavailable:
                continue
            except ContainerGone:
                return True
            except RuntimeFault:
                return False
        return False

    def leave(self) -> None:
        self._is_closed = True
        if self._stream is not None:
            self._stream.close()

    async def _end(self) -> None:
        if not self._exec_id or not (await self._state())["Running"]:
            return
        if self._pid:
            script = HANG_UP + 'hang_up "$1"'
            await run_beside(self._http, self._container, self._spec.user, script, self._pid)
        elif self._spec.owner:
            await end_owned_processes(self._http, self._container, self._spec.owner, self._spec.user)

    async def _has_size(self, columns: int, rows: int) -> bool:
        """True if the engine accepted the size or the process is gone."""
        try:
            await self._http.call("POST", f"/exec/{self._exec_id}/resize", h=str(rows), w=str(columns))
        except ContainerGone:
            return True
        except RuntimeFault:
            return await self._is_over()
        return True

    async def _is_over(self) -> bool:
        """True if the engine reports that the process has ended; False if that is unknown."""
        try:
            return not (await self._state())["Running"]
        except ContainerGone:
            return True
        except RuntimeFault:
            return False

    async def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = await self._http.call("GET", f"/exec/{self._exec_id}/json")
        return state

    def _take(self, data: bytes) -> None:
        if data:
            self._read.extend(self._channels.feed(data) if self._channels else [(Channel.OUTPUT, data)])

    async def _announced_pid(self) -> str:
        """Remove the first line from the output and return the pid in it.
        Raises ContainerGone if it is not a pid, because there is no `sh`.
        """
        line, errors = b"", []
        while b"\n" not in line and len(line) <= FIRST_LINE_BYTES:
            channel, data = await self.read()
            if not data:
                break
            if channel is Channel.OUTPUT:
                line += data
            else:
                errors.append((channel, data))
        announced, _, rest = line.partition(b"\n")
        pid = announced.strip().removeprefix(b"PID:").decode(errors="replace")
        if not (announced.startswith(b"PID:") and pid.isdigit()):
            words = announced.strip().decode(errors="replace")[:300]
            raise ContainerGone(f"{self._container}: no shell: {words}")
        self._read.extendleft(reversed([*errors, *([(Channel.OUTPUT, rest)] if rest else [])]))
        return pid


async def end_owned_processes(http: EngineHttp, container: str, owner: str, user: str = "") -> None:
    """End all processes whose owner begins with `owner`. Raises ContainerGone."""
    await run_beside(http, container, user, HANG_UP + END_OWNED, PROCESS_OWNER_VARIABLE, owner)


async def run_beside(http: EngineHttp, container: str, user: str, script: str, *arguments: str) -> None:
    """Run a script of Berth in the container, without waiting for its end."""
    config = {"Cmd": ["sh", "-c", script, "sh", *arguments], "User": user}
    exec_id = await _made(http, container, config)
    await http.call("POST", f"/exec/{exec_id}/start", {"Detach": True})


async def _made(http: EngineHttp, container: str, config: Mapping[str, object]) -> str:
    made = await http.call("POST", f"/containers/{container}/exec", config)
    with understood(http.address):
        return str(made["Id"])


def _config(spec: ProcessSpec) -> dict[str, object]:
    script = (
        RAISE_OOM_SCORE
        + ANNOUNCE
        + (GO_THERE if spec.working_dir else "")
        + (GIVEN if spec.argv else BEST_SHELL)
    )
    place = [spec.working_dir] if spec.working_dir else []
    environment = dict(spec.environment)
    if spec.has_terminal:
        environment = {"TERM": "xterm-256color"} | environment
    if spec.owner:
        environment[PROCESS_OWNER_VARIABLE] = spec.owner
    return {
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": spec.has_terminal,
        "Cmd": ["sh", "-c", script, "sh", *place, *spec.argv],
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "User": spec.user,
        **_console_size(spec),
    }


def _console_size(spec: ProcessSpec) -> dict[str, object]:
    """Return the initial terminal size.
    Engines from API 1.42 on use it; older ones ignore it and need `resize`.
    """
    return {"ConsoleSize": [spec.rows, spec.columns]} if spec.has_terminal else {}
