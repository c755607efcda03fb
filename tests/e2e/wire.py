"""A connection to the portal that a test can cut and restore."""

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator

from tests.faults.proxy import pump


class Wire:
    """Listens on a port of its own and passes on what comes there, unless it is cut."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._is_cut = False
        self._open: set[socket.socket] = set()
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    outer._serve(self.request)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://localhost:{self._server.server_address[1]}"

    def cut(self) -> None:
        """All connections break, and new ones too, until `mend`."""
        self._is_cut = True
        for end in list(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, client: socket.socket) -> None:
        if self._is_cut:
            return
        with socket.create_connection(self._target) as portal:
            ends = {client, portal}
            self._open |= ends
            try:
                pump(client, portal)
            finally:
                self._open -= ends


@contextlib.contextmanager
def wire_to(port: int) -> Iterator[Wire]:
    wire = Wire(port)
    try:
        yield wire
    finally:
        wire.close()
