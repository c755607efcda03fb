"""Socket-level helpers: addresses, keepalive, connection state and reset."""

import asyncio
import contextlib
import socket
import struct
from typing import Any

Address = tuple[str, int]

_LINGER_NOT = struct.pack("ii", 1, 0)
_ESTABLISHED = 1  # TCP_ESTABLISHED of Linux's tcp_info
# Detects a vanished peer after about two minutes, also on an idle connection.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)


def addresses(transport: asyncio.BaseTransport) -> tuple[Address, Address]:
    """Return the peer's address and the local one."""
    return _address(transport.get_extra_info("peername")), _address(transport.get_extra_info("sockname"))


def notice_vanishing(transport: asyncio.BaseTransport) -> None:
    connected = transport.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):  # gone already, or no socket of TCP
        for option in _KEEPALIVE:
            connected.setsockopt(*option)


def is_connected(transport: asyncio.BaseTransport) -> bool:
    """Return the kernel's state of the connection: while reading is paused, asyncio does not notice
    a client that leaves.
    """
    connected = transport.get_extra_info("socket")
    try:
        return bool(connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED)
    except OSError:
        return False


def reset(transport: asyncio.Transport) -> None:
    """Reset the connection, so that the peer cannot take a partial response for a complete one."""
    connected = transport.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    transport.abort()


def _address(name: Any) -> Address:
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else ("", 0)
