"""One POST to an address that somebody named: to a machine that may be called, to that address alone that was looked at, with an
end in time, following nothing, and reading no more than how it was answered."""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self

from sessions_app.core.callbacks import Fault, Reach, Target, may_be_called

CONNECT_S, WHOLE_S = 3.0, 10.0
MOST_ADDRESSES = 4
_TLS = ssl.create_default_context()


@dataclass(frozen=True, slots=True)
class Answer:
    """The status of HTTP, or why there is none."""

    status: int | None = None
    fault: Fault = Fault.NONE

    @property
    def is_good(self) -> bool:
        return self.status is not None and self.status // 100 == 2


class _Failed(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


def post(target: Target, body: bytes, headers: Mapping[str, str], reach: Reach) -> Answer:
    """How `target` answered, within WHOLE_S after its name was found; raises nothing."""
    try:
        addresses = _addresses_of(target, reach)
        with _Deadline(WHOLE_S) as deadline:
            try:
                status = _ask(target, addresses, body, headers, deadline)
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
    """Ends a connection that is still open after so many seconds, however slowly it drips."""

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
            except OSError:  # it has ended by itself
                return


def _addresses_of(target: Target, reach: Reach) -> list[str]:
    """The addresses of its name that may be called, asked for once. Raises _Failed where there is none."""
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise _Failed(Fault.NAME) from error
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    allowed = [each for each in addresses if may_be_called(ip_address(each), reach)]
    if not allowed:
        raise _Failed(Fault.FORBIDDEN)
    return allowed[:MOST_ADDRESSES]


def _connected(addresses: Sequence[str], port: int, deadline: _Deadline) -> socket.socket:
    """A connection to the first that takes one. Raises OSError."""
    for address in addresses[:-1]:
        try:
            return socket.create_connection((address, port), min(CONNECT_S, deadline.left_s))
        except OSError:
            continue
    return socket.create_connection((addresses[-1], port), min(CONNECT_S, deadline.left_s))


def _ask(
    target: Target, addresses: Sequence[str], body: bytes, headers: Mapping[str, str], deadline: _Deadline
) -> int:
    connection = _connected(addresses, target.port, deadline)
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
