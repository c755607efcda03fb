"""HTTP server on loopback that receives callbacks, with named faults."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Heard:
    """One request received."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class CallbackServer:
    """Server of callbacks. `heard` are the requests in order.

    `fault` is a status to answer with, or "hangs", "drips", "huge", "garbage", "closes", or
    "redirects" (to /elsewhere).
    """

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.fault: str | int = ""
        self.is_over = threading.Event()
        outer = self

        class Talk(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.heard.append(Heard(self.path, dict(self.headers.items()), body))
                try:
                    outer.answer(self)
                except OSError:  # the caller has gone
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Talk)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook?a=1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.is_over.set()
        self.server.shutdown()
        self.server.server_close()

    def answer(self, line: BaseHTTPRequestHandler) -> None:
        line.close_connection = True
        match self.fault:
            case "hangs":
                self.is_over.wait(60)
            case "closes":
                return
            case "garbage":
                line.wfile.write(b"\0\1\2 not http\r\n\r\n")
            case "drips":
                line.wfile.write(b"HTTP/1.1 200 OK\r\n")
                while not self.is_over.wait(0.1):
                    line.wfile.write(b"X-Slow: 1\r\n")
            case "huge":
                line.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
                while not self.is_over.is_set():
                    line.wfile.write(b"x" * 2**16)
            case "redirects":
                line.send_response(307)
                line.send_header("Location", "/elsewhere")
                line.end_headers()
            case status:
                line.send_response(int(status or 204))
                line.end_headers()
