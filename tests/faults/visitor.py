"""A person with an app open: a websocket that the app speaks on, and a connection on which pages are asked for. Plain
sockets, so that whatever breaks is seen and nothing is mended behind our back."""

import base64
import contextlib
import http.client
import os
import re
import socket
import threading
import time
from http import HTTPStatus
from urllib.parse import urlsplit

CLOSE, PING, PONG = 8, 9, 10  # kinds of websocket frames
SILENCE_S = 90
NAVIGATION = {
    "Accept": "text/html",
    "Sec_Fetch_Mode": "navigate",
    "Sec_Fetch_Dest": "document",
    "Sec_Fetch_Site": "none",
}
REDIRECTS = 10


class Browser:
    """Cookies by host, and every host at the portal's port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._cookies: dict[str, dict[str, str]] = {}

    def sign_in(self, link: str) -> None:
        """Use a link that signs in once."""
        _, page = self.visit(link)
        token = re.search(rb'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert token, page.decode()
        host, path = _place(link)
        form = f"csrfmiddlewaretoken={token.group(1).decode()}"
        status, _, _ = self._send("POST", host, path, form, Origin=f"http://{host}")
        assert status == HTTPStatus.FOUND, status

    def visit(self, url: str) -> tuple[int, bytes]:
        """Open a page and follow redirects."""
        host, path = _place(url)
        for _ in range(REDIRECTS):
            status, location, body = self._send("GET", host, path, **NAVIGATION)
            if not location:
                return status, body
            other, path = _place(location)
            host = other or host
        raise AssertionError(f"{url} redirects for ever")

    def _send(
        self, method: str, host: str, path: str, form: str = "", **headers: str
    ) -> tuple[int, str, bytes]:
        given = {**{name.replace("_", "-"): value for name, value in headers.items()}, **self.headers(host)}
        if form:
            given["Content-Type"] = "application/x-www-form-urlencoded"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body=form or None, headers=given)
            answer = connection.getresponse()
            body = answer.read()
        for line in answer.headers.get_all("Set-Cookie") or []:
            name, _, value = line.partition(";")[0].partition("=")
            self._cookies.setdefault(host, {})[name] = value
        return answer.status, answer.headers.get("Location") or "", body

    def headers(self, host: str) -> dict[str, str]:
        cookie = "; ".join(f"{name}={value}" for name, value in self._cookies.get(host, {}).items())
        return {"Host": host, **({"Cookie": cookie} if cookie else {})}


class OpenApp:
    """An app's websocket, held open; `has_survived` tells whether it is the same one still and speaks."""

    def __init__(self, browser: Browser, url: str) -> None:
        host, _ = _place(url)
        self._browser = browser
        self._host = host
        self._url = url
        self._ticks = 0
        self._ended = ""
        self._socket = self._open()
        threading.Thread(target=self._listen, daemon=True).start()

    def has_survived(self, deadline_s: float = 30) -> bool:
        """Whether it is open and something new comes."""
        before, end = self._ticks, time.monotonic() + deadline_s
        pause = threading.Event()
        while not self._ended and self._ticks < before + 2 and time.monotonic() < end:
            pause.wait(0.05)
        return not self._ended and self._ticks >= before + 2

    @property
    def ended(self) -> str:
        return self._ended

    def close(self) -> None:
        self._ended = "closed by us"
        self._socket.close()

    def _open(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._browser.port), timeout=30)
        given = {
            **self._browser.headers(self._host),
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Origin": f"http://{self._host}",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        connection.sendall(f"GET /ws HTTP/1.1\r\n{lines}\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = connection.recv(4096)
            assert piece, f"the websocket of {self._url} was refused: {answer!r}"
            answer += piece
        assert answer.startswith(b"HTTP/1.1 101"), answer
        connection.settimeout(SILENCE_S)
        return connection

    def _listen(self) -> None:
        data = b""
        while not self._ended:
            try:
                piece = self._socket.recv(4096)
                data = self._take_frames(data + piece)
            except OSError as error:
                self._ended = self._ended or f"{type(error).__name__}: {error}"
                return
            if not piece:
                self._ended = self._ended or "closed by the portal"

    def _take_frames(self, data: bytes) -> bytes:
        """Count ticks, answer pings, note a farewell; what is left is the beginning of a frame. All are short."""
        while len(data) >= 2 and len(data) >= 2 + data[1]:
            opcode, payload, data = data[0] & 0xF, data[2 : 2 + data[1]], data[2 + data[1] :]
            if opcode == PING:
                mask = bytes(4)
                self._socket.sendall(bytes((0x80 | PONG, 0x80 | len(payload))) + mask + payload)
            elif opcode == CLOSE:
                self._ended = self._ended or f"closed by the portal: {payload!r}"
            else:
                self._ticks += 1
        return data


class PageLoop:
    """Asks for a page of the app on one connection, again and again."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser = browser
        self._host, self._path = _place(url)
        self._is_over = threading.Event()
        self.asked = 0
        self.faults: list[str] = []
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._is_over.set()

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._browser.port, timeout=SILENCE_S)
        connection.connect()
        connection.auto_open = 0  # never a second connection
        while not self._is_over.wait(0.1):
            try:
                connection.request("GET", self._path, headers=self._browser.headers(self._host))
                answer = connection.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.faults.append(f"{type(error).__name__}: {error}")
                return
            if body != b"here":
                self.faults.append(f"{answer.status} {body[:100]!r}")
            self.asked += 1


def _place(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.netloc, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
