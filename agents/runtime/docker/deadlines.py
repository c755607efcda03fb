"""HTTP connections of which every call ends by a deadline.

The timeout of a socket counts from byte to byte, so an engine that sends or takes a byte now and then
would hold a thread for as long as it likes.
"""

import http.client
import io
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import requests.adapters
from docker.transport import UnixHTTPAdapter
from docker.transport.unixconn import UnixHTTPConnection, UnixHTTPConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

SEND_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class Limits:
    """Most seconds of one call: to connect, or to take a piece of the request; without a byte; from the
    beginning to the end of the answer's head, and of all of it.
    """

    connect_s: float
    silence_s: float
    head_s: float
    total_s: float


@dataclass(slots=True)
class _Deadline:
    """Time by which the present part of a call is over, on the monotonic clock."""

    limits: Limits
    at: float
    total_at: float

    def left_s(self, most_s: float | None) -> float:
        """Return how long to wait now, at most `most_s`. Raises TimeoutError."""
        left_s = self.at - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("It took too long over its answer.")
        return left_s if most_s is None else min(most_s, left_s)


_deadline: ContextVar[_Deadline | None] = ContextVar("deadline_of_call", default=None)


def present_limits() -> Limits | None:
    """Return the limits of the block that this is called in."""
    deadline = _deadline.get()
    return deadline.limits if deadline else None


@contextmanager
def limited(limits: Limits) -> Iterator[None]:
    """Limit the one call that this thread makes in the block; the body of its answer may be read later."""
    now = time.monotonic()
    token = _deadline.set(_Deadline(limits, now + limits.head_s, now + limits.total_s))
    try:
        yield
    finally:
        _deadline.reset(token)


class _LimitedReader(io.RawIOBase):
    """Receiving side of a socket."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: _Deadline) -> None:
        self._raw, self._sock, self._silence_s = raw, sock, sock.gettimeout()
        self.deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self.deadline.left_s(self._silence_s))
        return self._raw.readinto(buffer)

    def fileno(self) -> int:
        return self._raw.fileno()

    def close(self) -> None:
        self._raw.close()
        super().close()


class _LimitedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self._limit = _deadline.get()
        if self._limit is not None:
            self.fp = io.BufferedReader(_LimitedReader(self.fp.detach(), sock, self._limit))  # type: ignore[attr-defined]

    def begin(self) -> None:
        super().begin()
        if self._limit is not None:
            self._limit.at = self._limit.total_at


class _Limited:
    """Mixin of urllib3's connections."""

    response_class: Any = _LimitedResponse
    sock: Any
    timeout: Any

    def send(self, data: Any) -> None:
        """Send bytes in pieces, each within the time that is left; urllib3 passes nothing else."""
        deadline, view = _deadline.get(), memoryview(data)
        for start in range(0, len(view), SEND_BYTES):
            if deadline is not None and self.sock is not None:
                self.sock.settimeout(deadline.left_s(self.timeout))
            super().send(view[start : start + SEND_BYTES])  # type: ignore[misc]


class _LimitedHttp(_Limited, HTTPConnection):
    pass


class _LimitedHttps(_Limited, HTTPSConnection):
    pass


class _LimitedUnix(_Limited, UnixHTTPConnection):
    pass


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _LimitedHttp


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _LimitedHttps


class _UnixPool(UnixHTTPConnectionPool):
    def _new_conn(self) -> _LimitedUnix:
        return _LimitedUnix(self.base_url, self.socket_path, self.timeout)  # type: ignore[arg-type]


class NetworkAdapter(requests.adapters.HTTPAdapter):
    """Adapter of `requests` for addresses on the network."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)  # type: ignore[no-untyped-call]
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}


class SocketAdapter(UnixHTTPAdapter):
    """Adapter of `requests` for a socket of this machine."""

    def get_connection(self, url: str | bytes, proxies: Any = None) -> _UnixPool:
        with self.pools.lock:
            if (pool := self.pools.get(url)) is None:
                pool = _UnixPool(str(url), self.socket_path, self.timeout, maxsize=self.max_pool_size)
                self.pools[url] = pool
        return pool  # type: ignore[no-any-return]
