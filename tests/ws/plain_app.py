"""An app that believes every byte it is sent: whatever a proxy lets through shows in what it has read."""

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class GullibleApp(socketserver.ThreadingTCPServer):
    """Answers each request with its target, and remembers all targets."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.targets: list[bytes] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Handler(socketserver.StreamRequestHandler):
    server: GullibleApp

    def handle(self) -> None:
        with contextlib.suppress(ValueError, OSError):  # the proxy has broken off
            self._answer_all()

    def _answer_all(self) -> None:
        while line := self.rfile.readline():
            headers = dict(self._headers())
            target = line.split(b" ")[1]
            self.server.targets.append(target)
            if headers.get(b"transfer-encoding") == b"chunked":
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    self.rfile.read(size + 2)
                self.rfile.readline()
            else:
                self.rfile.read(int(headers.get(b"content-length", b"0")))
            body = b"" if line.startswith(b"HEAD") else target
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(target), body))

    def _headers(self) -> Iterator[tuple[bytes, bytes]]:
        while (line := self.rfile.readline().rstrip(b"\r\n")) != b"":
            name, _, value = line.partition(b":")
            yield name.lower(), value.strip()


@contextmanager
def gullible_app() -> Iterator[GullibleApp]:
    app = GullibleApp()
    thread = threading.Thread(target=app.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield app
    finally:
        app.shutdown()
        app.server_close()
        thread.join()


def statuses(answer: bytes) -> list[int]:
    """Of the answers in these bytes, interim ones too; bodies have the length that their heads say."""
    found = []
    while answer:
        head, _, answer = answer.partition(b"\r\n\r\n")
        found.append(int(head.split(b" ")[1]))
        lengths: list[Any] = [
            line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        ]
        answer = answer[int(lengths[0]) if lengths else 0 :]
    return found
