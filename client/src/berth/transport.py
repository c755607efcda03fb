"""HTTP requests to one portal: token, timeouts, retries, and refusals as errors."""

import json as jsonlib
import math
import os
import random
import socket
import ssl
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import certifi
import httpx

from berth.addresses import API_PREFIX, portal_url
from berth.errors import (
    BerthError,
    InvalidInput,
    NotFound,
    NotSignedIn,
    Refused,
    UnexpectedAnswer,
    Unreachable,
)
from berth.version import __version__


def tls_context(ca_file: str = "") -> ssl.SSLContext:
    """Return a verifying TLS context. Raises InvalidInput.

    Uses Mozilla's authorities if the system has none.
    """
    try:
        context = ssl.create_default_context()
        if not context.cert_store_stats()["x509_ca"]:
            context.load_verify_locations(certifi.where())
        if ca_file:
            context.load_verify_locations(os.path.expanduser(ca_file))
    except (OSError, ssl.SSLError) as exc:
        raise InvalidInput(
            f"The certificates in “{ca_file}” cannot be read: {exc}.",
            hint="Name a PEM file in ca_file of the profile, or in BERTH_CA_FILE.",
        ) from exc
    return context


Content = Callable[[], Iterable[bytes]]  # called anew for each try

TRIES = 4
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 5.0
CONNECT_S = 10.0
ANSWER_S = 60.0
REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE"})
KEY_HEADER = "Idempotency-Key"
DEEPEST = 100
PASSING_STATUSES = frozenset({408, 429, 502, 503, 504})


class Transport:
    """Connection to one portal with one token. Thread-safe."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca_file: str = "",
        timeout_s: float = ANSWER_S,
        wire: httpx.BaseTransport | None = None,
    ) -> None:
        if not token.isascii() or not token.isprintable() or " " in token:
            raise NotSignedIn("This is not a token.", hint="Copy all of it from your profile page: bk….…")
        self.url = portal_url(url)
        self.token = token
        self.tls = tls_context(ca_file) if self.url.startswith("https:") else None
        self._timeout_s = timeout_s
        with self._sendable():
            self._http = httpx.Client(
                base_url=f"{self.url}{API_PREFIX}/",
                headers={"Authorization": f"Bearer {token}", "User-Agent": f"berth/{__version__}"},
                timeout=httpx.Timeout(timeout_s, connect=CONNECT_S),
                transport=wire or self._wire(),
            )

    def close(self) -> None:
        self._http.close()

    def get_json(self, path: str, /, **params: Any) -> Any:
        return parse_json(self.request("GET", path, params=params))

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: object = None,
        content: Content | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Return the complete answer. Raises BerthError for a refusal or if nothing answers."""
        told = {"params": params, "json": json, "content": content, "headers": headers}
        with self.stream(method, path, **told, silence_s=self._timeout_s) as answer:  # type: ignore[arg-type]
            self._read(answer)
            return answer

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: object = None,
        content: Content | None = None,
        headers: Mapping[str, str] | None = None,
        silence_s: float | None = ANSWER_S,
    ) -> Iterator[httpx.Response]:
        """Yield the answer as soon as its headers have arrived.

        The body may pause for `silence_s` (None: without limit). Retries up to `TRIES` times until
        headers arrive: idempotent methods, and a POST with an idempotency key. Any other POST is
        retried only if it surely did not arrive.
        """

        body = None if json is None else json_bytes(json)
        heads = {**(headers or {}), **({} if json is None else {"Content-Type": "application/json"})}

        def ask() -> httpx.Response:
            with self._sendable():
                request = self._http.build_request(
                    method, path, params=_plain(params), content=content() if content else body, headers=heads
                )
                request.extensions["timeout"] = {**request.extensions["timeout"], "read": silence_s}
                return self._http.send(request, stream=True)

        answer = self._try(ask, may_repeat=method in REPEATABLE or KEY_HEADER in (headers or {}))
        try:
            self._raise_refusal(answer)
            yield answer
        except httpx.RequestError as error:
            raise self._lost(error) from error
        finally:
            answer.close()

    def _try(self, ask: Callable[[], httpx.Response], *, may_repeat: bool) -> httpx.Response:
        give_up_at = time.monotonic() + self._timeout_s
        for attempt in range(1, TRIES + 1):
            try:
                answer = ask()
            except httpx.TransportError as error:
                is_last = attempt == TRIES or time.monotonic() > give_up_at
                if is_last or not (may_repeat or _never_arrived(error)) or _is_distrust(error):
                    raise self._unreachable(error) from error
                _pause(attempt)
                continue
            if attempt == TRIES or not may_repeat or not self._will_pass(answer):
                return answer
            answer.close()
            _pause(attempt, answer.headers.get("Retry-After", ""))
        raise AssertionError("The last try returns or raises.")

    def _will_pass(self, answer: httpx.Response) -> bool:
        """Return True if a retry of the request may soon be answered differently."""
        if answer.status_code != httpx.codes.CONFLICT:
            return answer.status_code in PASSING_STATUSES
        self._read(answer)
        return b'"still_answering"' in answer.content  # the first of two requests with one key is in progress

    def _raise_refusal(self, answer: httpx.Response) -> None:
        if answer.is_success:
            return
        if answer.is_redirect:
            place = answer.headers.get("Location", "")[:200]
            raise UnexpectedAnswer(
                f"{self.url} sends us on to {place}.", hint="Sign in to that address: berth login URL."
            )
        self._read(answer)
        raise refusal_for(answer, self.url)

    def _read(self, answer: httpx.Response) -> None:
        try:
            answer.read()
        except httpx.RequestError as error:
            raise self._lost(error) from error

    @contextmanager
    def _sendable(self) -> Iterator[None]:
        """Raise InvalidInput for data that no request can hold, and for invalid addresses."""
        try:
            yield
        except UnicodeEncodeError as exc:
            raise InvalidInput(
                f"{ascii(exc.object)[:60]} is not UTF-8, so it cannot be sent.", hint="Write it anew."
            ) from exc
        except (httpx.InvalidURL, UnicodeError) as exc:
            raise InvalidInput(
                f"This is no address that can be asked: {exc}.", hint=f"Check the address {self.url}."
            ) from exc

    def _lost(self, error: httpx.RequestError) -> BerthError:
        if isinstance(error, httpx.DecodingError):
            return UnexpectedAnswer(f"{self.url} sent something that cannot be unpacked: {error}.")
        return self._unreachable(error)

    def _unreachable(self, error: Exception) -> Unreachable:
        reason = str(error) or type(error).__name__
        if _is_distrust(error):
            return Unreachable(
                f"The certificate of {self.url} is not to be trusted: {reason}.",
                hint="Give the file of its authority: BERTH_CA_FILE=ca.pem, or berth login --ca-file ca.pem.",
            )
        return Unreachable(
            f"{self.url} does not answer: {reason}.", hint="Check the address and the network; is Berth up?"
        )

    def _wire(self) -> httpx.HTTPTransport:
        """Return the HTTP transport: keep-alive probes, and the system's proxy if one is set."""
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        proxy = None if proxy_bypass(host) else getproxies().get(parts.scheme) or getproxies().get("all")
        verify = self.tls or False  # False: a plain HTTP connection
        options = _keepalive_options()
        try:
            return httpx.HTTPTransport(verify=verify, proxy=proxy or None, socket_options=options)
        except (ValueError, ImportError, httpx.InvalidURL) as exc:
            raise InvalidInput(
                f"The proxy of this machine cannot be used: {exc}",
                hint="Set HTTPS_PROXY like http://proxy.example.com:3128, or NO_PROXY for this portal.",
            ) from exc


def new_key() -> dict[str, str]:
    """Return a header with a new idempotency key, by which the portal recognises a retry."""
    return {KEY_HEADER: str(uuid.uuid4())}


def json_bytes(body: object) -> bytes:
    """Return `body` as JSON. Raises InvalidInput that names the first value JSON cannot hold."""
    try:
        text = jsonlib.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInput(
            f"{exc.object[exc.start : exc.end]!a} is not UTF-8, so it cannot be sent.", hint="Write it anew."
        ) from exc
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInput(
            f"This cannot be sent as JSON: {_misfit(body, '') or exc}.",
            hint="Give text, numbers, true, false, null, lists, and objects whose names are text.",
        ) from exc


def _misfit(value: object, place: str, depth: int = 0) -> str:
    """Describe the first value below `value` that JSON cannot hold, and its place; "" if none."""
    name = f"“{place.lstrip('.')}”" if place else "the body"
    if depth > DEEPEST:
        return f"“{place.lstrip('.')[:40]}…” is within itself, or nested too deeply"
    if isinstance(value, Mapping):
        if odd := next((key for key in value if not isinstance(key, str | int | float | None)), None):
            return f"{name} has a name that is a {type(odd).__name__}"
        inside = [(f"{place}.{key}", item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        inside = [(f"{place}.{number}", item) for number, item in enumerate(value)]
    elif isinstance(value, float) and not math.isfinite(value):
        return f"{name} is {value}, which is no number"
    elif isinstance(value, str | int | float | None):
        return ""
    else:
        return f"{name} is a {type(value).__name__}"
    return next((found for at, item in inside if (found := _misfit(item, at, depth + 1))), "")


def parse_json(answer: httpx.Response) -> Any:
    """Parse the body as JSON. Raises UnexpectedAnswer if it is not JSON."""
    try:
        return answer.json()
    except (ValueError, RecursionError) as exc:
        raise UnexpectedAnswer(
            f"{answer.url.host} does not answer like a Berth portal.", hint="Check the address: berth whoami."
        ) from exc


def refusal_for(answer: httpx.Response, url: str) -> BerthError:
    """Return the error for a refusing answer, with the portal's message if it has one."""
    status = answer.status_code
    kind = error_class(status)
    try:
        body = answer.json()
        message, hint, code = (str(body.get(name) or "") for name in ("message", "hint", "code"))
        fields = body.get("fields") or {}
        if not message or not isinstance(fields, dict):
            raise ValueError
    except (ValueError, AttributeError, RecursionError):
        if status == httpx.codes.NOT_FOUND and answer.request.method == "HEAD":
            return NotFound("There is nothing at this path.")
        if status == httpx.codes.NOT_FOUND:
            return UnexpectedAnswer(f"{url} has nothing there; it may be no Berth portal, or an older one.")
        return kind(f"{url} answered {status} {answer.reason_phrase}.".replace(" .", "."))
    if kind is NotSignedIn:
        hint = "Sign in with a token from your profile page: berth login."
    return kind(message, hint=hint, code=code, fields=fields)


def error_class(status: int) -> type[BerthError]:
    """Return the class of error for a refusing HTTP status."""
    exact: dict[int, type[BerthError]] = {400: InvalidInput, 401: NotSignedIn, 404: NotFound}
    if status in exact:
        return exact[status]
    if status in PASSING_STATUSES and status != httpx.codes.TOO_MANY_REQUESTS:
        return Unreachable
    return Refused if status < httpx.codes.INTERNAL_SERVER_ERROR else UnexpectedAnswer


def _never_arrived(error: httpx.TransportError) -> bool:
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


def _is_distrust(error: Exception) -> bool:
    return "CERTIFICATE_VERIFY_FAILED" in str(error)


def _pause(attempt: int, told: str = "") -> None:
    """Sleep before the next try: exponential with jitter, or longer if the portal asks (bounded)."""
    own = FIRST_PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.7, 1.3)  # noqa: S311  no secret
    time.sleep(min(max(own, float(told) if told.isdecimal() else 0.0), LONGEST_PAUSE_S))


def _plain(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (params or {}).items() if value is not None}


def _keepalive_options() -> list[tuple[int, int, int]]:
    """Return socket options that probe an idle peer: a followed log may pause for hours."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options
