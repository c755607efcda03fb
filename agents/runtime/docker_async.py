"""The port on a real Docker engine, for the event loop (aiodocker): shells and live logs."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import datetime

import aiodocker
import aiohttp
from aiodocker.execs import Exec
from aiodocker.stream import Stream

from agents.runtime.base import (
    ContainerGone,
    RuntimeFault,
    RuntimeRefused,
    RuntimeUnavailable,
    TlsMaterial,
)
from agents.runtime.base_async import AsyncRuntime, Shell
from agents.runtime.docker_client import CONNECT_TIMEOUT_S, fault_of_answer
from agents.runtime.wire import FrameSplitter

CALL_TIMEOUT_S = 30
READ_BYTES = 2**16
AIODOCKER_CONNECTION_ERROR = 900
HANGUP_ATTEMPTS = 2

# The process says its pid first, because the engine cannot end it: a shell outlives its connection. The pid comes
# before anything of the user's, and is only ever used inside the same container.
ANNOUNCE_PID = "printf 'PID:%s\\n' $$; "
BEST_SHELL = "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi"
HANG_UP = 'kill -HUP "$1" 2>/dev/null || exit 0; sleep 1; kill -KILL "$1" 2>/dev/null; exit 0'
"""Hang up as a closing terminal does; a shell that ignores it is killed, and the kernel hangs up its jobs."""


@contextmanager
def translated(address: str) -> Iterator[None]:
    """The wall: only RuntimeFaults leave the block."""
    try:
        yield
    except aiodocker.DockerError as error:
        if error.status == AIODOCKER_CONNECTION_ERROR:
            raise RuntimeUnavailable(f"Engine {address} does not answer: {error.message}") from error
        raise fault_of_answer(error.status, str(error.message)) from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        why = str(error) or type(error).__name__
        raise RuntimeUnavailable(f"Engine {address} does not answer: {why}") from error


class DockerAsyncRuntime(AsyncRuntime):
    """`address` is `unix:///path` or `tcp://host:port`; the latter needs TLS material. Made inside its event
    loop."""

    def __init__(self, address: str, tls: TlsMaterial | None = None) -> None:
        is_local = address.startswith("unix://")
        if not is_local and tls is None:
            raise RuntimeRefused(f"Engine {address}: only a local socket may be used without certificates.")
        self.address = address
        self._docker = aiodocker.Docker(
            url=address if is_local else address.replace("tcp://", "https://", 1),
            ssl_context=_ssl_context(tls) if tls else None,
            timeout=aiohttp.ClientTimeout(total=CALL_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S),
        )

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
        script = ANNOUNCE_PID + ('exec "$@"' if argv else BEST_SHELL)
        with translated(self.address):
            container = self._docker.containers.container(name)
            process = await container.exec(
                ["sh", "-c", script, "sh", *argv],
                stdin=True,
                tty=True,
                environment={"TERM": "xterm-256color"} | dict(environment or {}),
                user=user,
            )
            shell = DockerShell(self, name, process, user)
            async with AsyncExitStack() as on_failure:
                on_failure.push_async_callback(shell.close)
                await shell.start(columns, rows)
                on_failure.pop_all()
        return shell

    async def follow_logs(
        self, name: str, *, tail: int | None = None, since: datetime | None = None
    ) -> AsyncGenerator[bytes, None]:
        params = {"stdout": "1", "stderr": "1", "follow": "1", "tail": "all" if tail is None else str(tail)}
        if since is not None:
            params["since"] = f"{since.timestamp():.6f}"
        frames = FrameSplitter()
        with translated(self.address):
            async with self._docker._query(  # its own log() ends in silence when the engine goes
                f"containers/{name}/logs",
                params=params,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            ) as answer:
                async for data in answer.content.iter_any():
                    if payload := frames.feed(data):
                        yield payload

    async def kill_process(self, name: str, pid: str, user: str) -> None:
        """Hangs up on a process of the container, and kills it a second later if it is still there."""
        with translated(self.address):
            container = self._docker.containers.container(name)
            killer = await container.exec(
                ["sh", "-c", HANG_UP, "sh", pid], user=user, stdout=False, stderr=False
            )
            await killer.start(detach=True)

    async def close(self) -> None:
        await self._docker.close()


class DockerShell(Shell):
    """A `docker exec` with a terminal."""

    def __init__(self, runtime: DockerAsyncRuntime, container: str, process: Exec, user: str) -> None:
        self._runtime = runtime
        self._container = container
        self._process = process
        self._user = user
        self._stream: Stream | None = None
        self._pid = ""
        self._early = b""
        self._is_closed = False

    async def start(self, columns: int, rows: int) -> None:
        self._stream = self._process.start(detach=False)
        async with asyncio.timeout(CALL_TIMEOUT_S):
            first_line = b""
            while b"\n" not in first_line:
                message = await self._stream.read_out()
                if message is None:
                    raise ContainerGone(f"{self._container}: no shell: {first_line.decode(errors='replace')}")
                first_line += message.data
        announced, self._early = first_line.split(b"\n", 1)
        self._pid = announced.strip().removeprefix(b"PID:").decode(errors="replace")
        if not (announced.startswith(b"PID:") and self._pid.isdigit()):
            raise RuntimeRefused(f"{self._container}: no shell: {announced.decode(errors='replace')}")
        await self.resize(columns, rows)

    async def read(self) -> bytes:
        if self._early:
            early, self._early = self._early, b""
            return early
        if self._stream is None or self._is_closed:
            return b""
        with translated(self._runtime.address):
            message = await self._stream.read_out()
        return b"" if message is None else bytes(message.data)

    async def write(self, data: bytes) -> None:
        if self._stream is None or self._is_closed:
            return
        with translated(self._runtime.address):
            await self._stream.write_in(data)

    async def resize(self, columns: int, rows: int) -> None:
        try:
            with translated(self._runtime.address):
                await self._process.resize(h=rows, w=columns)
        except RuntimeFault:
            return  # it ended in the meantime, or the next size will do

    async def exit_code(self) -> int | None:
        with translated(self._runtime.address):
            code = (await self._process.inspect())["ExitCode"]
        return code if isinstance(code, int) else None

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._stream is not None:
            await self._stream.close()
        if self._pid:
            await asyncio.shield(self._hang_up())

    async def _hang_up(self) -> None:
        for _ in range(HANGUP_ATTEMPTS):
            try:
                if await self.exit_code() is None:
                    await self._runtime.kill_process(self._container, self._pid, self._user)
                return
            except RuntimeUnavailable:
                continue
            except RuntimeFault:
                return


def _ssl_context(tls: TlsMaterial) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca_file)
    context.load_cert_chain(tls.cert_file, tls.key_file)
    return context
