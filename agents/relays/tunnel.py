"""Tunnels: connections to containers by a process in a helper, through the engine's own connection."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TypeVar

from agents.runtime.port import RuntimeFault
from agents.runtime.port_async import AsyncRuntime, Channel, Process, ProcessSpec
from transport.proxy import Route

P = TypeVar("P", bound=asyncio.Protocol)

READ_BYTES = 2**16
CONNECT_S = 5
_tunnels: set[asyncio.Task[None]] = set()
"""Copying tasks, which the event loop itself does not keep alive."""


class TunnelRoute(Route):
    """Way over processes in the container `helper`. `runtime` is called in the running event loop."""

    confirms_connections = False

    def __init__(self, runtime: Callable[[], AsyncRuntime], helper: str) -> None:
        self._runtime = runtime
        self._helper = helper

    async def open(self, make_protocol: Callable[[], P], host: str, port: int) -> P:
        argv = ("socat", "-", f"TCP4:{host}:{port},connect-timeout={CONNECT_S}")
        spec = ProcessSpec(argv=argv, has_terminal=False)
        try:
            process = await self._runtime().open_process(self._helper, spec)
        except RuntimeFault as fault:
            raise ConnectionError(str(fault)) from fault
        here, there = socket.socketpair()
        there.setblocking(False)
        task = asyncio.create_task(_copy(process, there))
        _tunnels.add(task)
        task.add_done_callback(_tunnels.discard)
        _, protocol = await asyncio.get_running_loop().create_connection(make_protocol, sock=here)
        return protocol


async def _copy(process: Process, end: socket.socket) -> None:
    """Copy between the process and the socket until either side ends; then end both."""
    try:
        reader, writer = await asyncio.open_connection(sock=end, limit=READ_BYTES)
        with closing(writer):
            directions = [
                asyncio.create_task(copying)
                for copying in (_send(process, reader), _receive(process, writer))
            ]
            try:
                await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for direction in directions:
                    direction.cancel()
                await asyncio.gather(*directions, return_exceptions=True)
    finally:  # also if cancelled while it ends
        process.leave()  # socat ends when its input does


async def _send(process: Process, reader: asyncio.StreamReader) -> None:
    with suppress(OSError, RuntimeFault):
        while data := await reader.read(READ_BYTES):
            process.write(data)
            await process.drain()


async def _receive(process: Process, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, RuntimeFault):
        while True:
            channel, data = await process.read()
            if not data:
                return
            if channel is Channel.OUTPUT:
                writer.write(data)
                await writer.drain()
