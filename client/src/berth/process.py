"""Run commands in running sessions over a websocket.

Speaks the protocol of the portal's `exec` endpoint: JSON frames describe the process; binary frames
carry its data, and their first byte names the stream.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode, urlsplit, urlunsplit

from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from berth.addresses import API_PREFIX, segment
from berth.decoding import get_field
from berth.errors import BerthError, UnexpectedAnswer, Unreachable
from berth.transport import CONNECT_S, Transport, error_class
from berth.version import __version__

STDIN, STDOUT, STDERR = 0, 1, 2
DIALECT = Subprotocol("berth.exec.v1")
REFUSED_CODE = 4000
PIECE_BYTES = 64 * 1024
LARGEST_FRAME_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a command; `exit_code` is None if it is unknown."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes


class Process:
    """Running command. One thread iterates over `output`; others may write, resize and signal."""

    def __init__(self, connection: ClientConnection, window_bytes: int) -> None:
        self.exit_code: int | None = None
        self._connection = connection
        self._room = threading.Condition()
        self._window_bytes = window_bytes
        self._is_over = False

    def output(self) -> Iterator[tuple[int, bytes]]:
        """Yield (stream, bytes) until the command ends; then `exit_code` is set. Raises BerthError."""
        try:
            while True:
                message = _receive(self._connection)
                if isinstance(message, bytes):
                    if message:
                        yield message[0], message[1:]
                    continue
                if "ack" in message:
                    self._give_room(get_field(message, "ack", int))
                elif "exit_code" in message:
                    self.exit_code = message["exit_code"]
                    return
        finally:
            self._end()

    def write(self, data: bytes) -> None:
        """Send input to the command; blocks while earlier input is not read. Ignored after its end."""
        for start in range(0, len(data), PIECE_BYTES):
            piece = data[start : start + PIECE_BYTES]
            with self._room:
                while not self._is_over and self._window_bytes < len(piece):
                    self._room.wait()
                if self._is_over:
                    return
                self._window_bytes -= len(piece)
            self._send(bytes((STDIN,)) + piece)

    def close_input(self) -> None:
        """Close the standard input of the command."""
        self._send(bytes((STDIN,)))

    def resize(self, columns: int, rows: int) -> None:
        self._send(json.dumps({"resize": {"cols": columns, "rows": rows}}))

    def signal(self, name: str) -> None:
        """Send HUP, INT, QUIT, TERM, KILL, USR1, USR2, CONT, STOP, TSTP or WINCH to the command."""
        self._send(json.dumps({"signal": name}))

    def close(self) -> None:
        """End the command if it still runs."""
        self._end()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, message: str | bytes) -> None:
        try:
            self._connection.send(message)
        except ConnectionClosed:
            self._end()  # the reader of `output` gets the reason

    def _give_room(self, size_bytes: int) -> None:
        with self._room:
            self._window_bytes += size_bytes
            self._room.notify_all()

    def _end(self) -> None:
        with self._room:
            self._is_over = True
            self._room.notify_all()


def open_process(
    transport: Transport,
    session_id: str,
    argv: Sequence[str],
    *,
    tty: bool = False,
    env: Mapping[str, str] | None = None,
    cwd: str = "",
    size: tuple[int, int] = (80, 24),
    kernel: str = "main1",
) -> Process:
    """Start a command. With `tty` and an empty `argv`, starts a shell.

    `size` is (columns, rows) of the terminal.
    """
    wanted: dict[str, Any] = {"argv": list(argv), "tty": tty, "env": dict(env or {})}
    wanted |= {"cwd": cwd} if cwd else {}
    wanted |= {"cols": size[0], "rows": size[1]} if tty else {}
    connection = _connect(transport, f"sessions/{segment(session_id)}/exec/?{urlencode({'kernel': kernel})}")
    try:
        with suppress(ConnectionClosed):  # the next frame received has the reason
            connection.send(json.dumps(wanted))
        reply = _receive(connection)
        if isinstance(reply, bytes) or "started" not in reply:
            raise UnexpectedAnswer("The portal did not say that the command started.")
        return Process(connection, get_field(reply["started"], "window", int))
    except BaseException:
        connection.close()
        raise


def run_process(process: Process, input: bytes) -> Result:  # noqa: A002  the word of subprocess.run
    """Send `input` to the command and collect its output until it ends."""
    feeding = threading.Thread(target=_feed, args=(process, input), daemon=True)
    feeding.start()
    streams: dict[int, list[bytes]] = {STDOUT: [], STDERR: []}
    for stream, data in process.output():
        streams.setdefault(stream, []).append(data)
    feeding.join()
    return Result(process.exit_code, b"".join(streams[STDOUT]), b"".join(streams[STDERR]))


def _feed(process: Process, data: bytes) -> None:
    process.write(data)
    process.close_input()


def _connect(transport: Transport, path: str) -> ClientConnection:
    parts = urlsplit(f"{transport.url}{API_PREFIX}/{path}")
    address = urlunsplit(("wss" if transport.tls else "ws", *parts[1:]))
    try:
        opened = connect(
            address,
            ssl=transport.tls,
            additional_headers={"Authorization": f"Bearer {transport.token}"},
            subprotocols=[DIALECT],
            user_agent_header=f"berth/{__version__}",
            compression=None,
            max_size=LARGEST_FRAME_BYTES,
            open_timeout=CONNECT_S,
            # A terminal may be paused for an hour: a missing pong must not end the connection.
            ping_timeout=None,
        )
        return opened.__enter__()  # Process.close exits this context
    except InvalidStatus as exc:
        status = exc.response.status_code
        raise error_class(status)(f"{transport.url} answered {status} when asked to run a command.") from exc
    except (OSError, WebSocketException, UnicodeError, ImportError) as exc:
        raise Unreachable(f"{transport.url} does not answer: {exc or type(exc).__name__}.") from exc


def _receive(connection: ClientConnection) -> bytes | dict[str, Any]:
    """Return the next frame: bytes, or the object of a text frame.

    Raises BerthError for a refusal or a lost connection.
    """
    reply: Any = {}
    try:
        message = connection.recv()
        if isinstance(message, bytes):
            return message
        reply = json.loads(message)
        if isinstance(reply, dict) and "error" in reply:
            connection.recv()  # waits for the close frame, whose code gives the kind of refusal
    except ConnectionClosed as exc:
        raise _closing_error(exc, reply) from exc
    except (ValueError, RecursionError) as exc:
        raise UnexpectedAnswer("The portal said something that is no JSON.") from exc
    if not isinstance(reply, dict) or "error" in reply:
        raise UnexpectedAnswer("The portal said something about the command that cannot be understood.")
    return reply


def _closing_error(closed: ConnectionClosed, reply: Mapping[str, Any]) -> BerthError:
    code = closed.rcvd.code if closed.rcvd else 0
    error = reply.get("error")
    details = error if isinstance(error, dict) else {}
    if code >= REFUSED_CODE or details:
        kind = error_class(code - REFUSED_CODE)
        message = str(details.get("message") or (closed.rcvd and closed.rcvd.reason) or "The portal refused.")
        return kind(message, hint=str(details.get("hint") or ""), code=str(details.get("code") or ""))
    return Unreachable(
        "The connection to the command was lost, and with it the command.", hint="Start it again."
    )
