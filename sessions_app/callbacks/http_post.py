"""Send one POST to a user-supplied address without SSRF.

Connects only to the addresses that were resolved and checked, with a total deadline, follows no
redirects and reads only the status of the response.
"""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self

from sessions_app.core.callbacks import CallbackNetworks, Fault, Target, is_callable

CONNECT_S, WHOLE_S = 3.0, 10.0
MAX_ADDRESSES = 4
_TLS = ssl.create_default_context()


@dataclass(frozen=True, slots=True)
class Answer:
    """HTTP status of the response, or the reason why there is none."""

    status: int | None = None
    fault: Fault = Fault.NONE

    @property
    def is_good(self) -> bool:
        return self.status is not None and self.status // 100 == 2


class _Failed(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


def post(target: Target, body: bytes, headers: Mapping[str, str], networks: CallbackNetworks) -> Answer:
    """Post `body` and return the answer, at most WHOLE_S after name resolution. Raises nothing."""
    try:
        addresses = _allowed_addresses(target, networks)
        with _Deadline(WHOLE_S) as deadline:
            try:
                status = _send(target, addresses, body, headers, deadline)
                return Answer(fault=Fault.TIMEOUT) if deadline.is_over else Answer(status)
            except _Failed:
                raise
            except ssl.SSLError as error:
                raise _Failed(deadline.fault or Fault.TLS) from error
            except TimeoutError as error:
                raise _Failed(Fault.TIMEOUT) from error
            except OSError as error:
                raise _Failed(deadline.fault or Fault.CONNECT) from error
            except (http.client.HTTPException, ValueError) as error:
                raise _Failed(deadline.fault or Fault.PROTOCOL) from error
    except _Failed as failed:
        return Answer(fault=failed.fault)


class _Deadline:
    """Shuts down a connection after a total time, even if the peer still sends slowly."""

    def __init__(self, seconds: float) -> None:
        self.ends_at = time.monotonic() + seconds
        self.is_over = False
        self._connection: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._connection is not None:
            self._connection.close()

    @property
    def left_s(self) -> float:
        return max(0.01, self.ends_at - time.monotonic())

    @property
    def fault(self) -> Fault:
        return Fault.TIMEOUT if self.is_over else Fault.NONE

    def watch(self, connection: socket.socket) -> None:
        self._connection = connection

    def _end(self) -> None:
        self.is_over = True
        if self._connection is not None:
            try:
                socket.socket.shutdown(self._connection, socket.SHUT_RDWR)
            except OSError:  # already closed by the peer
                return


def _allowed_addresses(target: Target, networks: CallbackNetworks) -> list[str]:
    """Resolve the host once and return its allowed addresses. Raises _Failed if there are none."""
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise _Failed(Fault.NAME) from error
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    allowed = [each for each in addresses if is_callable(ip_address(each), networks)]
    if not allowed:
        raise _Failed(Fault.FORBIDDEN)
    return allowed[:MAX_ADDRESSES]


def _connect(addresses: Sequence[str], port: int, deadline: _Deadline) -> socket.socket:
    """Return a connection to the first address that accepts one. Raises OSError."""
    for address in addresses[:-1]:
        try:
            return socket.create_connection((address, port), min(CONNECT_S, deadline.left_s))
        except OSError:
            continue
    return socket.create_connection((addresses[-1], port), min(CONNECT_S, deadline.left_s))


def _send(
    target: Target, addresses: Sequence[str], body: bytes, headers: Mapping[str, str], deadline: _Deadline
) -> int:
    connection = _connect(addresses, target.port, deadline)
    deadline.watch(connection)
    connection.settimeout(deadline.left_s)
    if target.scheme == "https":
        connection = _TLS.wrap_socket(connection, server_hostname=target.host, do_handshake_on_connect=False)
        deadline.watch(connection)
        connection.do_handshake()  # type: ignore[attr-defined]
    kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
    exchange = kind(target.host, target.port)
    exchange.auto_open = 0
    exchange.sock = connection
    exchange.request("POST", target.path, body, dict(headers))
    return exchange.getresponse().status
