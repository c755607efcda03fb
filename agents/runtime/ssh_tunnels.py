"""Sockets of engines over SSH: for each machine and process a local socket, whose connections go
through one lasting SSH connection to the socket of the engine. Both kinds of runtime use it.
"""

import asyncio
import os
import tempfile
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any, TypeVar
from urllib.parse import urlsplit

import asyncssh
import structlog

from agents.runtime.port import SshMaterial

log = structlog.get_logger(__name__)

CONNECT_TIMEOUT_S = 10
KEEPALIVE_S = 5
SSH_PORT = 22
READ_BYTES = 2**16
T = TypeVar("T")

_lock = Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # of this process, by its id
_tunnels: dict[str, "Tunnel"] = {}  # by address


class SshFailed(Exception):
    """The SSH connection cannot be made; the sentence says why and what to do."""


class Tunnel:
    """Local socket of one machine. Connects at the first use, and again after a failure."""

    def __init__(self, address: str, material: SshMaterial, path: Path) -> None:
        self.address = address
        self.material = material
        self.path = path
        self.last_error = ""
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
            self.last_error = str(error)
            writer.transport.abort()
            return
        self.last_error = ""
        pumps = (_pump(reader, far_writer), _pump(far_reader, writer))
        try:
            await asyncio.gather(*pumps)
        except (OSError, asyncssh.Error):
            writer.transport.abort()
        finally:
            far_writer.close()
            writer.close()

    async def _open(self) -> tuple[Any, Any]:
        """Open a stream to the engine's socket. Raises SshFailed."""
        async with self._connecting:
            if self._connection is None or self._connection.is_closed():
                self._connection = await connect(self.address, self.material)
            connection = self._connection
        return await open_engine(self.address, connection, self.material)


def socket_of(address: str, material: SshMaterial) -> Path:
    """Return the local socket through which the engine of this machine is reached."""
    with _lock:
        tunnel = _tunnels.get(address)
        if tunnel is None or tunnel.material != material:
            if tunnel is not None:
                run(tunnel.close())
            home = Path(tempfile.mkdtemp(prefix="berth-ssh-"))
            tunnel = _tunnels[address] = Tunnel(address, material, home / "engine.sock")
            run(tunnel.listen())
        return tunnel.path


def last_error(address: str) -> str:
    """Return why the last connection to this machine was not made; "" if it was."""
    tunnel = _tunnels.get(address)
    return tunnel.last_error if tunnel else ""


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
        raise SshFailed(_not_reached(address, error)) from error
    if key is None:
        raise SshFailed(f"{address} shows no host key. Check that an SSH server answers there.")
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
        raise SshFailed(
            f"{address} shows another host key than when it was added. If the machine was set up anew, "
            "add it again; otherwise somebody else answers there."
        ) from error
    except asyncssh.PermissionDenied as error:
        raise SshFailed(
            f"{address} does not let Berth in. Add Berth's public key to ~/.ssh/authorized_keys of "
            f"“{place.username}” there."
        ) from error
    except (OSError, TimeoutError, asyncssh.Error) as error:
        raise SshFailed(_not_reached(address, error)) from error


async def open_engine(
    address: str, connection: asyncssh.SSHClientConnection, material: SshMaterial
) -> tuple[Any, Any]:
    """Open a stream to the engine's socket on the machine. Raises SshFailed."""
    try:
        return await connection.open_unix_connection(material.socket, encoding=None)
    except (OSError, asyncssh.Error) as error:
        raise SshFailed(
            f"{address} let Berth in, but not to {material.socket}: {error}. Check that the engine runs, that "
            f"“{urlsplit(address).username}” is in the group docker, and that sshd allows "
            "AllowStreamLocalForwarding."
        ) from error


def _not_reached(address: str, error: BaseException) -> str:
    return (
        f"{address} is not reached by SSH: {error or type(error).__name__}. Check the address and the port."
    )


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
