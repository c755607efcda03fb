"""What the system knows of a connection."""

import asyncio
import contextlib
import socket
import struct
from typing import Any

Address = tuple[str, int]

_LINGER_NOT = struct.pack("ii", 1, 0)
_ESTABLISHED = 1  # TCP_ESTABLISHED of Linux's tcp_info
# A peer that vanished without a word is noticed after some two minutes, on a connection that nobody writes to as well.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)


def addresses(transport: asyncio.BaseTransport) -> tuple[Address, Address]:
    """Where the connection comes from, and where it arrived."""
    return _address(transport.get_extra_info("peername")), _address(transport.get_extra_info("sockname"))


def notice_vanishing(transport: asyncio.BaseTransport) -> None:
    connected = transport.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):  # gone already, or no socket of TCP
        for option in _KEEPALIVE:
            connected.setsockopt(*option)


def is_connected(transport: asyncio.BaseTransport) -> bool:
    """Asked of the system: while we do not read, a client that leaves is not noticed."""
    connected = transport.get_extra_info("socket")
    try:
        return bool(connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED)
    except OSError:
        return False


def reset(transport: asyncio.Transport) -> None:
    """Break the connection so that its peer cannot take what it got for all there was."""
    connected = transport.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    transport.abort()


def _address(name: Any) -> Address:
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else ("", 0)
