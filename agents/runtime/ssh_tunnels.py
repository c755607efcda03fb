"""Sockets of engines over SSH: for each machine and process a local socket, whose connections go
through one lasting SSH connection to the socket of the engine. Both kinds of runtime use it.
"""

import asyncio
import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any, TypeVar
from urllib.parse import urlsplit

import asyncssh
import structlog

from agents.runtime.port import SshMaterial
from common.i18n import gettext, gettext_noop

log = structlog.get_logger(__name__)

CONNECT_TIMEOUT_S = 10
KEEPALIVE_S = 5
SSH_PORT = 22
READ_BYTES = 2**16
PREFIX = "berth-ssh-"
T = TypeVar("T")

_lock = Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # of this process, by its id
_tunnels: dict[str, "Tunnel"] = {}  # by address


OTHER_HOST_KEY = gettext_noop(
    "{address} shows another host key than when it was added. If the machine was set up anew, add it again; otherwise somebody"
    " else answers there."
)
NOT_LET_IN = gettext_noop(
    "{address} does not let Berth in. Add Berth’s public key to ~/.ssh/authorized_keys of “{user}” there."
)
NO_HOST_KEY = gettext_noop("{address} shows no host key. Check that an SSH server answers there.")
NOT_REACHED = gettext_noop("{address} is not reached by SSH: {error}. Check the address and the port.")
NO_ENGINE = gettext_noop(
    "{address} let Berth in, but not to {socket}: {error}. Check that the engine runs, that “{user}” is in the group docker, and"
    " that sshd allows AllowStreamLocalForwarding."
)


class SshFailed(Exception):
    """The SSH connection cannot be made; the sentence says why and what to do. `str` is English, for logs and
    processes without translations.
    """

    def __init__(self, sentence: str, **words: object) -> None:
        super().__init__(sentence, words)
        self.sentence = sentence
        self.words = words

    def __str__(self) -> str:
        return self.sentence.format(**self.words)

    def shown(self) -> str:
        """Return the sentence in the reader's language."""
        return gettext(self.sentence).format(**self.words)


class Tunnel:
    """Local socket of one machine. Connects at the first use, and again after a failure."""

    def __init__(self, address: str, material: SshMaterial, path: Path) -> None:
        self.address = address
        self.material = material
        self.path = path
        self.last_failure: SshFailed | None = None
        self._failed_at = float("-inf")
        self._connection: asyncssh.SSHClientConnection | None = None
        self._connecting = asyncio.Lock()
        self._server: asyncio.AbstractServer | None = None

    async def listen(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def close(self) -> None:
        if self._server:
            self._server.close()
        if self._connection:
            self._connection.abort()
        with suppress(OSError):
            self.path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await self._open()
        except SshFailed as error:
            self.last_failure = error
            writer.transport.abort()
            return
        self.last_failure = None
        pumps = (_pump(reader, far_writer), _pump(far_reader, writer))
        try:
            await asyncio.gather(*pumps)
        except (OSError, asyncssh.Error):
            writer.transport.abort()
        finally:
            far_writer.close()
            writer.close()

    async def _open(self) -> tuple[Any, Any]:
        """Open a stream to the engine's socket. Raises SshFailed, also for those who waited for an attempt of
        another to connect: attempts in turn would be more than end while a machine does not answer.
        """
        asked_at = time.monotonic()
        async with self._connecting:
            if self.last_failure is not None and self._failed_at >= asked_at:
                raise self.last_failure
            if self._connection is None or self._connection.is_closed():
                try:
                    self._connection = await connect(self.address, self.material)
                except SshFailed as error:
                    self.last_failure, self._failed_at = error, time.monotonic()
                    raise
            connection = self._connection
        return await open_engine(self.address, connection, self.material)


def socket_of(address: str, material: SshMaterial) -> Path:
    """Return the local socket through which the engine of this machine is reached."""
    with _lock:
        tunnel = _tunnels.get(address)
        if tunnel is None or tunnel.material != material:
            if tunnel is not None:
                run(tunnel.close())
            tunnel = Tunnel(address, material, _new_directory() / "engine.sock")
            run(tunnel.listen())
            _tunnels[address] = tunnel
        return tunnel.path


def last_failure(address: str) -> SshFailed | None:
    """Return why the last connection to this machine was not made; None if it was."""
    tunnel = _tunnels.get(address)
    return tunnel.last_failure if tunnel else None


def _new_directory() -> Path:
    """Make a directory for a socket, which is removed when this process ends; a killed process leaves its own
    to the next one that makes one.
    """
    _remove_directories(_is_orphaned)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def _remove_directories(is_chosen: Callable[[int], bool]) -> None:
    """Remove directories of sockets, chosen by the process that made them."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        process = directory.name.removeprefix(PREFIX).partition("-")[0]
        if process.isdecimal() and is_chosen(int(process)):
            shutil.rmtree(directory, ignore_errors=True)  # those of other accounts stay


def _is_orphaned(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


# A forked process has the same handler, but no directory of its own.
atexit.register(lambda: _remove_directories(lambda process: process == os.getpid()))


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the event loop of the tunnels and return its result."""
    return asyncio.run_coroutine_threadsafe(work, _loop()).result(2 * CONNECT_TIMEOUT_S)


async def host_key_of(address: str) -> str:
    """Return the host key that the machine shows, in the form of known_hosts. Raises SshFailed."""
    place = urlsplit(address)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            key = await asyncssh.get_server_host_key(
                place.hostname or "", place.port or SSH_PORT, config=None
            )
    except (OSError, TimeoutError, asyncssh.Error) as error:
        raise _not_reached(address, error) from error
    if key is None:
        raise SshFailed(NO_HOST_KEY, address=address)
    return key.export_public_key().decode().strip()


async def connect(address: str, material: SshMaterial) -> asyncssh.SSHClientConnection:
    """Sign in on the machine; only the pinned host key is accepted. Raises SshFailed."""
    place = urlsplit(address)
    try:
        return await asyncssh.connect(
            place.hostname or "",
            place.port or SSH_PORT,
            username=place.username,
            client_keys=[asyncssh.import_private_key(material.key)],
            known_hosts=([asyncssh.import_public_key(material.host_key)], [], []),
            agent_path=None,
            config=None,
            connect_timeout=CONNECT_TIMEOUT_S,
            login_timeout=CONNECT_TIMEOUT_S,
            keepalive_interval=KEEPALIVE_S,
            keepalive_count_max=2,
        )
    except asyncssh.HostKeyNotVerifiable as error:
        raise SshFailed(OTHER_HOST_KEY, address=address) from error
    except asyncssh.PermissionDenied as error:
        raise SshFailed(NOT_LET_IN, address=address, user=place.username) from error
    except (OSError, TimeoutError, asyncssh.Error) as error:
        raise _not_reached(address, error) from error


async def open_engine(
    address: str, connection: asyncssh.SSHClientConnection, material: SshMaterial
) -> tuple[Any, Any]:
    """Open a stream to the engine's socket on the machine. Raises SshFailed."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            return await connection.open_unix_connection(material.socket, encoding=None)
    except (OSError, TimeoutError, asyncssh.Error) as error:
        user = urlsplit(address).username
        raise SshFailed(NO_ENGINE, address=address, socket=material.socket, error=error, user=user) from error


def _not_reached(address: str, error: BaseException) -> SshFailed:
    return SshFailed(NOT_REACHED, address=address, error=error or type(error).__name__)


async def _pump(reader: Any, writer: Any) -> None:
    """Copy one direction to its end, which is passed on; the other direction goes on."""
    while data := await reader.read(READ_BYTES):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        with suppress(OSError):
            writer.write_eof()


def _loop() -> asyncio.AbstractEventLoop:
    process = os.getpid()
    if process not in _loops:
        _loops.clear()
        loop = _loops[process] = asyncio.new_event_loop()
        Thread(target=loop.run_forever, name="ssh-tunnels", daemon=True).start()
    return _loops[process]
