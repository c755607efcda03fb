"""Runs in a session, on port 9000: an app that remembers each request, answers as its own pages wish, lets every origin
read it, and keeps a secret. Standard library alone.

/page        an empty page                     /log   what it was asked so far, as JSON
/secret      the secret; /secret.js as script  /sw.js a service worker that tells what it sees
/say         ?status=&header=Name: value&body= answers so
Any upgrade becomes a websocket that says the secret.
"""

import base64
import hashlib
import http.server
import json
import threading
import time
import urllib.parse

SECRET = "the secret of the app"
SERVICE_WORKER = """
const channel = new BroadcastChannel("seen");
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  const url = event.request.url;
  if (!url.includes("code=")) return;
  event.respondWith((async () => {
    const answer = await fetch(url, { credentials: "include", redirect: "manual" });
    const text = JSON.stringify({ url, type: answer.type, status: answer.status });
    channel.postMessage(text);
    return new Response("seen:" + text, { headers: { "Content-Type": "text/html" } });
  })());
});
"""


class App:
    """The requests of one app, so that one server can be several."""

    def __init__(self) -> None:
        self.requests: list[dict[str, object]] = []
        self._lock = threading.Lock()

    def answer(self, handler: http.server.BaseHTTPRequestHandler, target: str) -> None:
        url = urllib.parse.urlsplit(target)
        query = urllib.parse.parse_qs(url.query)
        if url.path == "/log":
            self._send(handler, 200, "application/json", json.dumps(self.requests))
            return
        length = int(handler.headers.get("Content-Length") or 0)
        headers = [[name.lower(), value] for name, value in handler.headers.items()]
        body = handler.rfile.read(length).decode(errors="replace")
        with self._lock:
            self.requests.append(
                {"method": handler.command, "path": target, "headers": headers, "body": body}
            )
        if "websocket" in (handler.headers.get("Upgrade") or "").lower():
            say_by_websocket(handler)
        elif url.path == "/say":
            given = [line.split(": ", 1) for line in query.get("header", [])]
            status = int(query.get("status", ["200"])[0])
            self._send(handler, status, "text/html", query.get("body", [""])[0], given)
        elif url.path == "/secret.js":
            self._send(handler, 200, "text/javascript", f"window.stolen = {json.dumps(SECRET)}")
        elif url.path == "/sw.js":
            self._send(handler, 200, "text/javascript", SERVICE_WORKER, [["Service-Worker-Allowed", "/"]])
        elif url.path == "/secret":
            self._send(handler, 200, "text/plain", SECRET)
        else:
            self._send(handler, 200, "text/html", "<!doctype html><title>app</title><p>app</p>")

    def _send(
        self,
        handler: http.server.BaseHTTPRequestHandler,
        status: int,
        kind: str,
        text: str,
        more: list[list[str]] | None = None,
    ) -> None:
        body = text.encode()
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        # As careless as an app can be.
        handler.send_header("Access-Control-Allow-Origin", handler.headers.get("Origin") or "*")
        handler.send_header("Access-Control-Allow-Credentials", "true")
        for name, value in more or []:
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)


def say_by_websocket(handler: http.server.BaseHTTPRequestHandler) -> None:
    key = handler.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    handler.send_response(101)
    handler.send_header("Upgrade", "websocket")
    handler.send_header("Connection", "Upgrade")
    handler.send_header(
        "Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    )
    handler.end_headers()
    text = SECRET.encode()
    handler.wfile.write(bytes([0x81, len(text)]) + text)
    handler.wfile.flush()
    time.sleep(2)
    handler.close_connection = True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    app = App()

    def _any(self) -> None:
        self.app.answer(self, self.path)

    do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_HEAD = _any  # noqa: N815

    def log_message(self, *words: object) -> None:
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("", 9000), Handler).serve_forever()
