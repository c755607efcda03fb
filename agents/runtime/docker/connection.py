"""Connection to one Docker engine through the docker SDK: timeouts, circuit breaker, and
translation of errors into RuntimeFaults.
"""

import json
import re
import tarfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import docker
import docker.constants
import docker.errors
import docker.tls
import requests
import structlog
import urllib3

from agents.runtime.addresses import UNIX
from agents.runtime.docker.deadlines import Limits, NetworkAdapter, SocketAdapter, limited, present_limits
from agents.runtime.docker.encoding import ChannelSplitter, files_archive, parse_instant
from agents.runtime.endpoints import Endpoint, endpoint_of
from agents.runtime.port import (
    HELPER_FILES_AT,
    ContainerGone,
    Credentials,
    DeviceUnavailable,
    HelperSpec,
    ImageMissing,
    LabelledObject,
    NetworkMissing,
    OutOfCapacity,
    ProcessResult,
    ProcessTimeout,
    RuntimeFault,
    RuntimeRefused,
    RuntimeUnavailable,
    TlsMaterial,
)
from common.resilience.call_window import CallWindow
from common.resilience.circuit_breaker import Circuit, Outage
from common.resilience.fault_points import pause

log = structlog.get_logger(__name__)

CONNECT_TIMEOUT_S = 3
CALL_TIMEOUT_S = 30
PING_TIMEOUT_S = 3
SILENCE_TIMEOUT_S = 300
"""Seconds without data after which a stream (a pull) fails; the engine is silent while it unpacks a
large layer.
"""

TRANSFER_TIMEOUT_S = 3600
STREAM = Limits(CONNECT_TIMEOUT_S, SILENCE_TIMEOUT_S, SILENCE_TIMEOUT_S, TRANSFER_TIMEOUT_S)

READ_BYTES = 2**16
ANSWER_BYTES = 2**26
"""Longest answer that is read as a whole, so that no engine fills the memory of a process."""

LINE_BYTES = 2**20

TRANSPORT_FAULTS = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    docker.errors.DockerException,
    OSError,
)

TIMEOUTS = (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError)

MALFORMED = (AttributeError, LookupError, TypeError, ValueError, tarfile.TarError)
"""Errors of reading an answer that is not what an engine says."""

# Engines from 28 on put "failed to set up container networking: " before it.
_NO_NETWORK = re.compile(r"(?:^|: )network \S+ not found")
_FULL = (
    "no space left on device",
    "cannot allocate memory",
    "could not find an available",
)
_NO_DRIVER = "The engine has no driver or runtime for these devices"
_NO_DEVICE = {
    "error gathering device information": "A device file is missing",
    "could not select device driver": _NO_DRIVER,
    "unknown runtime specified": _NO_DRIVER,  # engines before 23
    "unknown or invalid runtime name": _NO_DRIVER,
    "unresolvable cdi devices": "The engine’s list of CDI devices lacks them",
    "no known gpu vendor found": "The engine’s list of CDI devices lacks them",
    "error setting rlimit type 8": "The engine may not lift the limit of locked memory",
}


class EngineClient(docker.APIClient):
    """Client of the docker SDK with a short connect timeout and a limit on every wait.

    It ignores the environment: REQUESTS_CA_BUNDLE would override the engine's own certificate
    authority. It follows no redirects, by which an engine would have other servers called from here.
    """

    def __init__(self, endpoint: Endpoint, api_version: str) -> None:
        super().__init__(
            base_url=endpoint.url,
            version=api_version,
            timeout=CALL_TIMEOUT_S,
            tls=_tls_config(endpoint.tls) or False,
        )
        if endpoint.is_socket:
            self.mount("http+docker://", SocketAdapter(endpoint.url.removeprefix(UNIX), CALL_TIMEOUT_S))
        else:
            self.mount("http://", NetworkAdapter())
            self.mount("https://", NetworkAdapter())
        self.trust_env = False
        self.max_redirects = 0
        self.hooks["response"].append(_limit_answer)

    def request(self, method: str, url: str, **kwargs: Any) -> requests.Response:  # type: ignore[override]
        """Send a request. `timeout` is in seconds, for the whole answer; None is for streams. Neither counts in
        a block of `limited`.
        """
        within_s, limits = kwargs.pop("timeout", None), present_limits()
        if limits is None:
            with limited(STREAM if within_s is None else whole_answer(within_s)):
                return self.request(method, url, **kwargs)
        return super().request(method, url, timeout=(limits.connect_s, limits.silence_s), **kwargs)

    def url_of(self, path: str) -> str:
        """Return the URL of an API path for which the SDK has no suitable method."""
        return f"{self.base_url}/v{self.api_version}{path}"


def whole_answer(within_s: float) -> Limits:
    total_s = CONNECT_TIMEOUT_S + within_s
    return Limits(CONNECT_TIMEOUT_S, within_s, total_s, total_s)


def _limit_answer(answer: requests.Response, **options: Any) -> None:
    """Limit an answer that is about to be read as a whole to ANSWER_BYTES."""
    if not options.get("stream"):
        answer.raw = _LimitedBody(answer.raw)


class _LimitedBody:
    """Body of an answer, in place of urllib3's."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)

    def stream(self, *arguments: Any, **options: Any) -> Iterator[bytes]:
        read_bytes = 0
        for piece in self._body.stream(*arguments, **options):
            read_bytes += len(piece)
            if read_bytes > ANSWER_BYTES:
                raise requests.exceptions.ContentDecodingError(
                    f"Its answer has more than {ANSWER_BYTES} bytes."
                )
            yield piece


def _tls_config(tls: TlsMaterial | None) -> docker.tls.TLSConfig | None:
    if tls is None:
        return None
    pair = (tls.cert_file, tls.key_file)
    return docker.tls.TLSConfig(client_cert=pair, ca_cert=tls.ca_file, verify=True)


class Connection:
    """Owner of an engine's client, which is created at first use and again after a failure.
    Thread-safe.
    """

    def __init__(self, address: str, credentials: Credentials | None) -> None:
        self.address = address
        self.endpoint = endpoint_of(address, credentials)
        self._lock = Lock()
        self._client: EngineClient | None = None
        self._circuit = Circuit(self._ping, TRANSPORT_FAULTS)
        # By method: an engine may answer some calls and hang in others.
        self._windows: defaultdict[str, CallWindow] = defaultdict(CallWindow)

    def check_answer(self) -> None:
        """Check through the circuit breaker that the engine answers now or within seconds, so that
        callers do not all wait for an engine that hangs. Raises RuntimeUnavailable.
        """
        try:
            self._circuit.check_answer()
        except Outage as outage:
            raise RuntimeUnavailable(f"Engine {self.address} does not answer: {outage}") from outage

    @contextmanager
    def one_call(self, method: str) -> Iterator[None]:
        """Count the block as a call. Raises RuntimeUnavailable if the engine has enough of its kind to answer."""
        with self._windows[method].call() as is_allowed:
            if not is_allowed:
                raise RuntimeUnavailable(
                    f"Engine {self.address} is slow: earlier calls wait for its answers."
                )
            yield

    def note_answer(self, method: str) -> None:
        self._circuit.note_answer()
        self._windows[method].note_answer()

    def note_failure(self, method: str, error: Exception) -> None:
        self._circuit.doubt()
        if isinstance(error, TIMEOUTS):
            self._windows[method].note_timeout()
        self.forget()

    def _ping(self) -> None:
        """Ping the engine. Unlike other calls, a ping is answered quickly even by a busy engine."""
        try:
            client = self.client()
            client.get(f"{client.base_url}/_ping", timeout=PING_TIMEOUT_S).raise_for_status()
        except TRANSPORT_FAULTS as error:
            self.forget()
            raise ConnectionError(self.endpoint.explain(root_cause(error))) from error

    def client(self) -> EngineClient:
        """Return the client, which uses the engine's API version, negotiated once per connection."""
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> EngineClient:
        first = EngineClient(self.endpoint, docker.constants.MINIMUM_DOCKER_API_VERSION)
        answer = first.get(f"{first.base_url}/version", timeout=CONNECT_TIMEOUT_S)
        first.close()
        answer.raise_for_status()
        return EngineClient(self.endpoint, answer.json()["ApiVersion"])

    def forget(self) -> None:
        """Drop the client, so that the next use reconnects; calls in progress end by themselves."""
        with self._lock:
            self._client = None

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()


@contextmanager
def understood(address: str) -> Iterator[None]:
    """Translate the errors of reading a malformed answer in the block into RuntimeUnavailable."""
    try:
        yield
    except requests.RequestException:  # some are ValueErrors too
        raise
    except MALFORMED as error:
        log.warning("engine.malformed_answer", address=address, exc_info=error)
        raise RuntimeUnavailable(f"Engine {address} answers like no engine: {error!r}") from error


class Connected(Protocol):
    connection: Connection


Self = TypeVar("Self", bound=Connected)
Given = ParamSpec("Given")
Result = TypeVar("Result")


def translated(
    method: Callable[Concatenate[Self, Given], Result],
) -> Callable[Concatenate[Self, Given], Result]:
    """Decorate a method so that it raises only RuntimeFaults and drops the client after a transport
    error.
    """

    @wraps(method)
    def guarded(self: Self, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            with understood(self.connection.address):
                result = method(self, *args, **kwargs)
        except docker.errors.APIError as error:
            self.connection.note_answer(method.__name__)
            raise fault_of_answer(error.status_code or 500, str(error.explanation or error)) from error
        except TRANSPORT_FAULTS as error:
            self.connection.note_failure(method.__name__, error)
            why = self.connection.endpoint.explain(root_cause(error))
            raise RuntimeUnavailable(f"Engine {self.connection.address} does not answer: {why}") from error
        self.connection.note_answer(method.__name__)
        pause(method.__name__)
        return result

    return guarded


def answered(
    method: Callable[Concatenate[Self, Given], Result],
) -> Callable[Concatenate[Self, Given], Result]:
    """Decorate a method like `translated`, but check the circuit breaker first, so that callers do
    not all wait for an engine that hangs.
    """
    ask = translated(method)

    @wraps(method)
    def guarded(self: Self, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        self.connection.check_answer()
        with self.connection.one_call(method.__name__):
            return ask(self, *args, **kwargs)

    return guarded


def fault_of_answer(status: int, text: str) -> RuntimeFault:
    """Translate an HTTP status and the engine's message into a RuntimeFault. It has no NUL, which the database
    refuses.
    """
    text = text.replace("\0", "")
    low = text.lower()
    if any(words in low for words in _FULL):
        return OutOfCapacity(text)
    own_words = low.partition('"')[0]  # what is quoted may come from a user or an image
    if cause := next((cause for words, cause in _NO_DEVICE.items() if words in own_words), ""):
        return DeviceUnavailable(f"{cause}: {text}")
    if (status == 404 and "no such image" in low) or low == "reference does not exist":
        return ImageMissing(text)
    if status == 404 and ("no such container" in low or "no such exec" in low):
        return ContainerGone(text)
    if status in (404, 500) and _NO_NETWORK.search(low):
        return NetworkMissing(text)
    if status == 409 and ("is not running" in low or "is paused" in low):
        return ContainerGone(text)
    if status in (502, 503, 504):
        return RuntimeUnavailable(text)
    return RuntimeRefused(text)


def root_cause(error: BaseException) -> str:
    """Return the message of the innermost exception, without the wrappers of the HTTP libraries."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error) or type(error).__name__


def raise_refusal(answer: requests.Response) -> None:
    """Raise the SDK's error, with the engine's message, if the answer is an error."""
    try:
        answer.raise_for_status()
    except requests.HTTPError as error:
        raise docker.errors.create_api_error_from_http_exception(error) from error


def message_of(answer: requests.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError):
        return f"HTTP {answer.status_code}"


def run_once(client: EngineClient, spec: HelperSpec, config: dict[str, Any], timeout_s: int) -> ProcessResult:
    """Create a container, run it to its end and remove it. Raises ProcessTimeout."""
    name = spec.name
    client.create_container_from_config(config, name)  # type: ignore[no-untyped-call]
    try:
        start_helper(client, spec)
        code = client.wait(name, timeout=timeout_s)["StatusCode"]
        output = client.logs(name)[: spec.log_bytes].replace(b"\0", b"")  # no row may have one
        return ProcessResult(exit_code=code, output=output)
    except (requests.Timeout, requests.ConnectionError) as error:
        raise ProcessTimeout(f"The helper {name} did not end within {timeout_s} s.") from error
    finally:
        client.remove_container(name, v=True, force=True)


def start_helper(client: EngineClient, spec: HelperSpec) -> None:
    if spec.files:
        client.put_archive(spec.name, HELPER_FILES_AT, files_archive(spec.files))
    client.start(spec.name)


def past_events(client: EngineClient, filters: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events that the engine remembers, oldest first.

    The query ends at the engine's present time: with a later end the engine would wait for further
    events.
    """
    answer = client.get(f"{client.base_url}/_ping", timeout=CALL_TIMEOUT_S)
    present = parsedate_to_datetime(answer.headers["Date"])
    params = {"since": "1", "until": str(int(present.timestamp())), "filters": json.dumps(filters)}
    with client.get(client.url_of("/events"), params=params, timeout=CALL_TIMEOUT_S) as answer:
        raise_refusal(answer)
        return [json.loads(line) for line in answer.text.splitlines() if line]


def lines_of(answer: requests.Response) -> Iterator[bytes]:
    """Yield the lines of a stream of messages as they arrive. Raises RuntimeRefused for one of more than
    LINE_BYTES, as no engine sends.
    """
    rest = b""
    for piece in answer.iter_content(requests.models.ITER_CHUNK_SIZE):
        *lines, rest = (rest + piece).split(b"\n")
        yield from filter(None, map(bytes.strip, lines))
        if len(rest) > LINE_BYTES:
            raise RuntimeRefused(f"The engine sent a message of more than {LINE_BYTES} bytes.")
    if rest.strip():
        yield rest


def first_bytes(answer: requests.Response, limit_bytes: int, timeout_s: float) -> bytes:
    """Read stdout and stderr to their end and return the first `limit_bytes`. Raises TimeoutError."""
    deadline = time.monotonic() + timeout_s
    output, splitter = bytearray(), ChannelSplitter()
    while data := answer.raw.read1(READ_BYTES):
        for _, text in splitter.feed(data):
            output += text[: limit_bytes - len(output)]
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(output)


def boot_of(client: EngineClient, now: datetime | None) -> tuple[str, datetime | None]:
    """Return a boot id of the machine and its time: id and creation time of the engine's default
    bridge.

    The engine recreates that bridge whenever it starts without running containers, at least at each
    boot. The time is None if it is later than the engine's `now`, because its clock was set back.
    """
    found = client.networks(names=["bridge"])
    bridge: dict[str, Any] = next((network for network in found if network["Name"] == "bridge"), {})
    made_at = parse_instant(bridge.get("Created", ""))
    return bridge.get("Id", ""), made_at if made_at and now and made_at <= now else None


def label_filter(labels: Mapping[str, str]) -> dict[str, Any]:
    return {"label": [f"{name}={value}" for name, value in labels.items()]}


def labelled(rows: list[dict[str, Any]]) -> list[LabelledObject]:
    found = [LabelledObject(name=row["Name"], labels=row.get("Labels") or {}) for row in rows]
    return sorted(found, key=lambda item: item.name)
