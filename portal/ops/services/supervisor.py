"""Process supervisor: relays output by name, restarts dead processes, stops all in order."""

import asyncio
import contextlib
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from portal.ops.console import Say, speaker
from portal.ops.setup.service_account import Account

CHILD = Path(__file__).with_name("child.py")
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
# A process that ran this long resets the restart delay.
STEADY_AFTER_S = 30.0
DEATHS_BEFORE_READY = 3
REMEMBERED_LINES = 15


class ServiceFailed(Exception):
    """A service did not become ready, or a set-up command failed; the text names it and why."""


@dataclass(frozen=True, slots=True)
class Service:
    """Program to keep running."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    is_ready: Callable[[], bool] = lambda: True
    before_start: Callable[[], None] = lambda: None
    account: Account | None = None
    # File descriptors that it inherits under the same numbers.
    descriptors: tuple[int, ...] = ()
    stop_signal: signal.Signals = signal.SIGTERM
    # Sent by the kernel if the supervisor dies; the next bin/up must find the port free.
    orphan_signal: signal.Signals = signal.SIGKILL
    stop_grace_s: float = 15.0


@dataclass(slots=True)
class Running:
    """Service and its current process."""

    service: Service
    process: asyncio.subprocess.Process | None = None
    task: asyncio.Task[None] | None = None
    deaths: int = 0
    is_stopping: bool = False
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED_LINES))

    def is_asked_to_stop(self) -> bool:
        return self.is_stopping


class Supervisor:
    """Starts services in call order and stops them in reverse.

    All methods run on one event loop in the main thread: the kernel ties children to the thread
    that created them.
    """

    def __init__(self) -> None:
        self._running: list[Running] = []

    async def start(self, service: Service, *, ready_within_s: float = 60) -> None:
        """Start a service, keep it running, and return once it is ready. Raises ServiceFailed."""
        running = Running(service)
        self._running.append(running)
        running.task = asyncio.create_task(self._keep(running), name=service.name)
        give_up_at = time.monotonic() + ready_within_s
        while running.process is None or not await asyncio.to_thread(service.is_ready):
            if running.task.done():
                running.task.result()
            if running.deaths >= DEATHS_BEFORE_READY or time.monotonic() > give_up_at:
                reason = running.last_lines[-1] if running.last_lines else "it said nothing"
                raise ServiceFailed(f"{service.name} did not start: {reason}")
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop all services, last started first; kill those that exceed their grace period."""
        for running in reversed(self._running):
            running.is_stopping = True
        while self._running:
            await self._end(self._running.pop())

    async def stop_concurrently(self, names: Sequence[str]) -> None:
        """Stop independent services concurrently."""
        chosen = [running for running in self._running if running.service.name in names]
        self._running = [running for running in self._running if running not in chosen]
        await asyncio.gather(*(self._end(running) for running in chosen))

    async def _keep(self, running: Running) -> None:
        service, say = running.service, speaker(running.service.name)
        pause_s = FIRST_PAUSE_S
        while not running.is_asked_to_stop():
            began_at = time.monotonic()
            service.before_start()
            running.process = process = await spawn(service)
            await relay_output(process, say, running.last_lines)
            code = await process.wait()
            running.process = None
            if running.is_asked_to_stop():
                return
            running.deaths += 1
            if time.monotonic() - began_at > STEADY_AFTER_S:
                pause_s = FIRST_PAUSE_S
            say(f"ended with {ending(code)}; starting it again in {pause_s:g} s")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _end(self, running: Running) -> None:
        running.is_stopping = True
        process = running.process
        if process and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(running.service.stop_signal)
            try:
                await asyncio.wait_for(process.wait(), running.service.stop_grace_s)
            except TimeoutError:
                speaker(running.service.name)(
                    f"does not end within {running.service.stop_grace_s:g} s; killing it"
                )
                process.kill()
                await process.wait()
        if running.task:
            running.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running.task


async def spawn(service: Service) -> asyncio.subprocess.Process:
    """Start a process that dies with the supervisor, in its own session, out of Ctrl-C's reach."""
    account = service.account
    identity = (str(account.uid), str(account.gid)) if account else ("-1", "-1")
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(CHILD),
        str(int(service.orphan_signal)),
        *identity,
        *service.argv,
        env=service.environment,
        cwd=service.directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        pass_fds=service.descriptors,
    )


async def run_once(
    name: str, argv: Sequence[str], *, environment: Mapping[str, str], directory: Path, is_quiet: bool = False
) -> str:
    """Run a set-up command to completion and return its output. Raises ServiceFailed.

    Lines are shown as they arrive; with `is_quiet` only on failure.
    """
    say = speaker(name)
    lines: deque[str] = deque(maxlen=1000)
    command = Service(name, tuple(argv), environment, directory)
    process = await spawn(command)
    try:
        await relay_output(process, (lambda _: None) if is_quiet else say, lines)
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code != 0:
        if is_quiet:
            say("\n".join(list(lines)[-REMEMBERED_LINES:]))
        raise ServiceFailed(
            f"{name} failed with {ending(code)}: {lines[-1] if lines else 'it reason nothing'}"
        )
    return "\n".join(lines)


async def relay_output(process: asyncio.subprocess.Process, say: Say, remembered: deque[str]) -> None:
    """Relay complete lines until the output closes; endless lines in pieces."""
    assert process.stdout is not None
    pending = b""
    while chunk := await process.stdout.read(65536):
        *complete, pending = (pending + chunk).split(b"\n")
        if len(pending) > 65536:
            complete, pending = [*complete, pending], b""
        lines = [line.decode(errors="replace").rstrip() for line in complete]
        remembered.extend(lines)
        say("\n".join(lines))
    if pending:
        remembered.append(pending.decode(errors="replace"))
        say(remembered[-1])


def ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
