"""Runs in a session, on port 9000: answers each request with the headers that it got, as JSON."""

import http.server
import json


class Mirror(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps([[name.lower(), value] for name, value in self.headers.items()]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("", 9000), Mirror).serve_forever()
