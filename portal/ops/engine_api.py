"""A small client of the Docker Engine API for set-up: standard library only, no docker command needed."""

import http.client
import json
import os
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlencode, urlsplit


class EngineUnreachable(Exception):
    """Nothing answers at the address, or not in time. The cause is chained."""


class EngineForbidden(EngineUnreachable):
    """The socket is there, but this user may not open it."""


class EngineRefused(Exception):
    """The engine answered with an error; `status` is the HTTP status, the text is the engine's own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class EngineClient:
    """One engine, by its address: unix:///path, or tcp://host:port (TLS as DOCKER_TLS_VERIFY says).

    Paths carry no API version, so that each engine answers in its newest one: what is used here has
    the same form in all of them.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def get(self, path: str, *, timeout_s: float = 10) -> Any:
        return json.loads(self._send("GET", path, timeout_s=timeout_s).read() or "null")

    def post(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        timeout_s: float = 60,
    ) -> Any:
        answer = self._send(
            "POST", path, query=query, body=json.dumps(body or {}).encode(), timeout_s=timeout_s
        )
        return json.loads(answer.read() or "null")

    def delete(self, path: str, *, query: Mapping[str, str] | None = None) -> None:
        """Succeeds too where the object is gone already."""
        try:
            self._send("DELETE", path, query=query, timeout_s=60).read()
        except EngineRefused as refusal:
            if refusal.status != http.HTTPStatus.NOT_FOUND:
                raise

    def download(self, path: str, target: BinaryIO, *, timeout_s: float = 120) -> None:
        answer = self._send("GET", path, timeout_s=timeout_s)
        try:
            while chunk := answer.read(1 << 20):
                target.write(chunk)
        except OSError as error:
            raise EngineUnreachable(f"{self.address} stopped in the middle of {path}") from error

    def messages(
        self,
        path: str,
        *,
        query: Mapping[str, str],
        body: bytes | BinaryIO = b"",
        timeout_s: float,
    ) -> Iterator[dict[str, Any]]:
        """The JSON lines of a pull or an import as they come; raises EngineRefused at an error line.

        `timeout_s` limits the silence between two lines. Closing the iterator cancels the operation.
        """
        answer = self._send("POST", path, query=query, body=body, timeout_s=timeout_s)
        try:
            while line := answer.readline():
                message = json.loads(line)
                if "error" in message:
                    raise EngineRefused(answer.status, message["error"])
                yield message
        except OSError as error:
            raise EngineUnreachable(
                f"{self.address} fell silent for {timeout_s:.0f} s during {path}"
            ) from error
        finally:
            answer.close()

    def attach(self, container: str, *, timeout_s: float) -> "Attachment":
        """Standard input and output of a created container; `timeout_s` limits the silence."""
        connection = self._connection(timeout_s)
        path = f"/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1"
        try:
            connection.request("POST", path, headers={"Upgrade": "tcp", "Connection": "Upgrade"})
            reader = connection.sock.makefile("rb")  # http.client would close it: a 101 has no body
            status = int(reader.readline().split()[1])
            while reader.readline().strip():
                pass
        except (OSError, http.client.HTTPException, IndexError) as error:
            raise EngineUnreachable(f"{self.address} did not attach to {container}") from error
        if status not in (http.HTTPStatus.OK, http.HTTPStatus.SWITCHING_PROTOCOLS):
            raise EngineRefused(status, f"cannot attach to the container {container}")
        return Attachment(connection.sock, reader)

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | BinaryIO | None = None,
        timeout_s: float,
    ) -> http.client.HTTPResponse:
        connection = self._connection(timeout_s)
        headers = {"Content-Type": "application/json" if isinstance(body, bytes) else "application/x-tar"}
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            connection.request(method, target, body=body, headers=headers)
            answer = connection.getresponse()
        except PermissionError as error:
            raise EngineForbidden(self.address) from error
        except (OSError, http.client.HTTPException) as error:
            raise EngineUnreachable(f"{self.address} does not answer: {error}") from error
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise EngineRefused(answer.status, _error_text(answer.read()))
        return answer

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        place = urlsplit(self.address)
        if place.scheme == "unix":
            return _UnixConnection(place.path, timeout_s)
        if os.environ.get("DOCKER_TLS_VERIFY"):
            return http.client.HTTPSConnection(
                place.hostname or "", place.port or 2376, timeout=timeout_s, context=_tls_context()
            )
        return http.client.HTTPConnection(place.hostname or "", place.port or 2375, timeout=timeout_s)


class Attachment:
    """The streams of an attached container (one without a terminal)."""

    def __init__(self, connection: socket.socket, reader: BinaryIO) -> None:
        self._socket = connection
        self._reader = reader

    def write(self, content: bytes) -> None:
        self._socket.sendall(content)

    def lines(self) -> Iterator[str]:
        """Lines of both outputs in the order in which they were written, until the container ends."""
        pending = b""
        while header := self._reader.read(8):
            (size,) = struct.unpack(">4xI", header)
            pending += self._reader.read(size).replace(b"\r", b"\n")
            *complete, pending = pending.split(b"\n")
            yield from (line.decode(errors="replace") for line in complete)
        if pending:
            yield pending.decode(errors="replace")

    def close(self) -> None:
        self._reader.close()
        self._socket.close()


def _error_text(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace").strip()


def _tls_context() -> ssl.SSLContext:
    folder = Path(os.environ.get("DOCKER_CERT_PATH", Path.home() / ".docker"))
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.load_cert_chain(str(folder / "cert.pem"), str(folder / "key.pem"))
    return context
