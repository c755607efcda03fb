"""Ways to open a connection to a container: directly, or over a relay on its machine."""

import asyncio
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

P = TypeVar("P", bound=asyncio.Protocol)

LOST_S = 12
"""Seconds without a sign of life of the other machine, after which a connection is closed."""

_RETRY_S = 0.1


class Route(ABC):
    """Way to the containers of one machine. Two routes are never equal, so connections that were
    opened over different ones never mix: keep one object as long as the way stays the same.
    """

    confirms_connections = True
    """True if `open` fails where nothing listens; over others an open connection only shows that the
    machine is reached.
    """

    @abstractmethod
    async def open(self, make_protocol: Callable[[], P], host: str, port: int) -> P:
        """Return the protocol of a new connection to a port of a container. The caller limits the time.
        Raises OSError.
        """


class DirectRoute(Route):
    """Way to containers on this machine."""

    async def open(self, make_protocol: Callable[[], P], host: str, port: int) -> P:
        _, protocol = await asyncio.get_running_loop().create_connection(make_protocol, host, port)
        return protocol


class TlsRelayRoute(Route):
    """Way over a relay that forwards TLS connections to the container that their server name means.

    `name_of` returns that name, which the relay's certificate must have. `tls` holds the authority of
    the relay and the certificate of this side.
    """

    confirms_connections = False

    def __init__(
        self, relay: tuple[str, int], tls: ssl.SSLContext, name_of: Callable[[str, int], str]
    ) -> None:
        self._host, self._port = relay
        self._tls = tls
        self._name_of = name_of

    async def open(self, make_protocol: Callable[[], P], host: str, port: int) -> P:
        loop, name = asyncio.get_running_loop(), self._name_of(host, port)
        while True:
            try:
                transport, protocol = await loop.create_connection(
                    make_protocol, self._host, self._port, ssl=self._tls, server_hostname=name
                )
            except (ConnectionRefusedError, ConnectionResetError):
                await asyncio.sleep(_RETRY_S)  # the relay is being restarted; the caller's limit ends this
            else:
                _notice_a_lost_machine(transport)
                return protocol


def _notice_a_lost_machine(transport: asyncio.BaseTransport) -> None:
    """Have the kernel end the connection when the machine confirms nothing for LOST_S."""
    end: socket.socket = transport.get_extra_info("socket")
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LOST_S * 1000)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, LOST_S)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, LOST_S // 3)


DIRECT = DirectRoute()
