"""Stands between the portal and an engine, and makes that engine slow, deaf or stubborn, one kind of request at a time.
What a frozen container or a sick disk does by chance happens here each time."""

import contextlib
import json
import re
import select
import socket
import socketserver
import threading
from dataclasses import dataclass, field
from pathlib import Path

HEAD_LIMIT = 2**16
PIECE = 2**16
HANG_LIMIT_S = 300


@dataclass(slots=True)
class Fault:
    """What happens to requests whose "METHOD /path" matches: they wait, and then are refused or go on; the answer to
    one that goes on may be lost."""

    pattern: re.Pattern[str]
    delay_s: float
    refusal: str
    loses_answer: bool = False
    is_over: threading.Event = field(default_factory=threading.Event)
    hits: int = 0


class FaultyEngine:
    """A socket of its own in front of one engine's. Without a fault it only passes on."""

    def __init__(self, folder: Path, engine: Path) -> None:
        self.socket = folder / "proxy.sock"
        self.address = f"unix://{self.socket}"
        self._engine = engine
        self._faults: list[Fault] = []
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    outer._serve(self.request)

        class Server(socketserver.ThreadingUnixStreamServer):
            request_queue_size = 128  # beyond it, asyncio takes a refused connection for an open one

        self._server = Server(str(self.socket), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def refuse(self, pattern: str, message: str) -> Fault:
        return self._add(Fault(re.compile(pattern), 0, message))

    def delay(self, pattern: str, delay_s: float) -> Fault:
        return self._add(Fault(re.compile(pattern), delay_s, ""))

    def lose_answers(self, pattern: str) -> Fault:
        """The engine does as it was asked, and the connection breaks before it can say so."""
        return self._add(Fault(re.compile(pattern), 0, "", loses_answer=True))

    def hang(self, pattern: str = "") -> Fault:
        """No answer until `heal`."""
        return self.delay(pattern, HANG_LIMIT_S)

    def heal(self) -> None:
        """No fault any more; what waits goes on if somebody still waits for it."""
        faults, self._faults = self._faults, []
        for fault in faults:
            fault.is_over.set()

    def close(self) -> None:
        self.heal()
        self._server.shutdown()
        self._server.server_close()

    def _add(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault

    def _serve(self, client: socket.socket) -> None:
        """One request: the engine is told to close after it, so that each comes by here."""
        head = read_head(client)
        first, _, rest = head.partition(b"\r\n")
        words = first.decode("latin-1").split(" ")
        asked = " ".join(words[:2])
        faults = [fault for fault in self._faults if fault.pattern.search(asked)]
        for fault in faults:
            fault.hits += 1
            fault.is_over.wait(fault.delay_s)
            if fault.refusal:
                client.sendall(refusal(fault.refusal))
                return
        if not head or is_gone(client):
            return
        if b"upgrade:" not in rest.lower():
            rest = re.sub(rb"(?im)^connection:.*\r\n", b"", rest)
            rest = b"Connection: close\r\n" + rest
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(str(self._engine))
            engine.sendall(first + b"\r\n" + rest)
            if any(fault.loses_answer for fault in faults):
                engine.recv(PIECE)  # it has done it now
                return
            pump(client, engine)


def read_head(client: socket.socket) -> bytes:
    """Up to the empty line, and what came along with it; b"" if nothing was asked."""
    data = b""
    while b"\r\n\r\n" not in data and len(data) < HEAD_LIMIT:
        piece = client.recv(PIECE)
        if not piece:
            return b""
        data += piece
    return data


def is_gone(client: socket.socket) -> bool:
    readable, _, _ = select.select([client], [], [], 0)
    return bool(readable) and client.recv(1, socket.MSG_PEEK) == b""


def pump(one: socket.socket, other: socket.socket) -> None:
    """Both directions until both have ended."""
    ways = {one: other, other: one}
    while ways:
        readable, _, _ = select.select(list(ways), [], [])
        for source in readable:
            data = source.recv(PIECE)
            if data:
                ways[source].sendall(data)
                continue
            with contextlib.suppress(OSError):
                ways[source].shutdown(socket.SHUT_WR)
            if source is other:
                return  # the engine has said all
            del ways[source]


def refusal(message: str) -> bytes:
    body = json.dumps({"message": message}).encode()
    return (
        b"HTTP/1.1 500 Internal Server Error\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    ) + body
