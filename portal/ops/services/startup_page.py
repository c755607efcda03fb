"""Serves a page on the portal's port while the portal starts; the page reloads when the portal
answers.

Connections are refused for a moment between the end of this server and the start of the portal; the
page keeps polling.
"""

import contextlib
import http.server
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from types import MappingProxyType

COOKIE = "berth_language"


@dataclass(frozen=True, slots=True)
class Words:
    """Texts of one language. `stage` takes {seconds}."""

    title: str
    promise: str
    stage: str


WORDS = MappingProxyType(
    {
        "en": Words(
            "Berth is starting",
            "This page opens by itself as soon as Berth answers. Running sessions go on meanwhile.",
            "It has been starting for {seconds} s; the first time takes some minutes.",
        ),
        "ko": Words(
            "Berth를 시작하는 중입니다",
            "Berth가 응답하면 이 페이지가 저절로 열립니다. 실행 중인 세션은 그대로 계속됩니다.",
            "시작한 지 {seconds}초 지났습니다. 처음에는 몇 분이 걸립니다.",
        ),
        "ja": Words(
            "Berthを起動しています",
            "Berthが応答すると、このページは自動的に開きます。実行中のセッションはそのまま続きます。",
            "起動を始めてから{seconds}秒たちました。初回は数分かかります。",
        ),
    }
)


def language_for(cookie: str, accepted: str) -> str:
    """Return the language of the cookie, else the first known one in Accept-Language."""
    names = (part.partition(";")[0].strip().lower()[:2] for part in accepted.split(","))
    return next((name for name in (_chosen(cookie), *names) if name in WORDS), "en")


def _chosen(cookie: str) -> str:
    try:
        found = SimpleCookie(cookie).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


ASKED_EVERY_MS = 1000
PAGE = """<!doctype html>
<html lang="{language}">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <title>{title}</title>
  <link rel="icon" href="data:,">
  <noscript><meta http-equiv="refresh" content="3"></noscript>
  <style nonce="{nonce}">
    :root {{ --ink: light-dark(#1d2b36, #dde6ec); --calm: light-dark(#566571, #95a5b1); --ground: light-dark(#f5f7f9, #0f161c);
      --line: light-dark(#dfe5ea, #283541); --accent: light-dark(#0b6a84, #5cc4da); color-scheme: light dark; }}
    body {{ margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }}
    main {{ max-width: 30rem; padding: 2rem; text-align: center; }}
    h1 {{ font-size: 1.25rem; font-weight: 600; margin: 1rem 0 .5rem; }}
    p {{ margin: .25rem 0; color: var(--calm); }}
    .wait {{ width: 2rem; height: 2rem; margin: 0 auto; border: 3px solid var(--line); border-top-color: var(--accent); border-radius: 50%; animation: turn 1.2s linear infinite; }}
    @keyframes turn {{ to {{ transform: rotate(1turn); }} }}
    @media (prefers-reduced-motion: reduce) {{ .wait {{ animation: none; }} }}
  </style>
</head>
<body>
  <main role="status">
    <div class="wait" aria-hidden="true"></div>
    <h1>{title}</h1>
    <p>{promise}</p>
    <p>{stage}</p>
  </main>
  <script nonce="{nonce}">
    const ask = () => fetch("/api/v1/health/", {{ cache: "no-store" }}).then((answer) => answer.ok && location.reload()).catch(() => {{}});
    setInterval(ask, {asked_every_ms});
  </script>
</body>
</html>
"""
FOR_PROGRAMS = {
    "code": "starting",
    "message": "Berth is starting.",
    "hint": "Ask again in a few seconds.",
    "fields": {},
}


class StartupServer:
    """Server of the start-up page on one socket, until `stop`, which is idempotent."""

    def __init__(self, host: str, port: int) -> None:
        """Start the server. Raises OSError if the port is not available."""
        began_at = time.monotonic()

        class Answer(http.server.BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                with contextlib.suppress(OSError):
                    super().handle_one_request()

            def answer(self) -> None:
                answer_starting(self, time.monotonic() - began_at)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815  # the base's names

            def log_message(self, *_: object) -> None:
                """Write no log lines."""

        self._is_stopped = False
        self._server = _Server((host, port), Answer)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the server; the port is free on return."""
        if not self._is_stopped:
            self._is_stopped = True
            self._server.shutdown()
            self._server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
        super().__init__(address, handler)


def answer_starting(request: http.server.BaseHTTPRequestHandler, waited_s: float) -> None:
    """Send 503 as a page, or as JSON under /api/."""
    nonce = secrets.token_urlsafe(12)
    is_program = request.path.startswith("/api/")
    body = (json.dumps(FOR_PROGRAMS) if is_program else page_for(request, nonce, waited_s)).encode()
    request.send_response(http.HTTPStatus.SERVICE_UNAVAILABLE)
    request.send_header("Content-Type", "application/json" if is_program else "text/html; charset=utf-8")
    request.send_header("Content-Length", str(len(body)))
    request.send_header("Cache-Control", "no-store")
    request.send_header("Retry-After", "3")
    policy = f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; img-src data:"
    request.send_header("Content-Security-Policy", policy)
    request.send_header("X-Content-Type-Options", "nosniff")
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


def page_for(request: http.server.BaseHTTPRequestHandler, nonce: str, waited_s: float) -> str:
    language = language_for(request.headers.get("Cookie", ""), request.headers.get("Accept-Language", ""))
    words = WORDS[language]
    return PAGE.format(
        language=language,
        title=words.title,
        promise=words.promise,
        stage=words.stage.format(seconds=round(waited_s)),
        nonce=nonce,
        asked_every_ms=ASKED_EVERY_MS,
    )


@contextlib.contextmanager
def startup_page(host: str, port: int) -> Iterator[Callable[[], None]]:
    """Serve the start-up page during the block, or until the yielded function is called. If the
    port is not available nothing is served; the portal itself will report that.
    """
    try:
        server = StartupServer(host, port)
    except OSError:
        yield lambda: None
        return
    try:
        yield server.stop
    finally:
        server.stop()
