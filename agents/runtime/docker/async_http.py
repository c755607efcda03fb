"""HTTP client for one Docker engine on the event loop, which translates errors into RuntimeFaults."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp

from agents.runtime.addresses import UNIX
from agents.runtime.docker.connection import (
    ANSWER_BYTES,
    CALL_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    fault_of_answer,
    understood,
)
from agents.runtime.docker.stream import READ_BYTES, Stream, hijack
from agents.runtime.endpoints import endpoint_of
from agents.runtime.port import Credentials, RuntimeFault, RuntimeUnavailable, TlsMaterial
from agents.runtime.ssh_tunnels import last_failure

PATH_STAT_HEADER = "X-Docker-Container-Path-Stat"
REFUSAL_BYTES = 2**12
SILENCE_TIMEOUT_S = 300
SCANS = 2
"""Maximum number of large logs of one engine that are scanned to their end concurrently, before any
of their entries is yielded.
"""


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Translate connection errors and timeouts in the block into RuntimeUnavailable."""
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        why = str(last_failure(address) or error) or type(error).__name__
        raise RuntimeUnavailable(f"Engine {address} does not answer: {why}") from error


class EngineHttp:
    """HTTP connections to one engine, for one event loop.
    `address` is `unix:///path`, `tcp://host:port` or `ssh://user@host`.
    """

    def __init__(self, address: str, credentials: Credentials | None) -> None:
        self.address = address
        self._endpoint = endpoint_of(address, credentials)
        self._tls = _ssl_context(self._endpoint.tls) if self._endpoint.tls else None
        self._http: aiohttp.ClientSession | None = None
        self.scans = asyncio.Semaphore(SCANS)

    async def call(
        self, method: str, url: str, body: Mapping[str, object] | None = None, **query: str
    ) -> Any:
        """Return the decoded JSON answer; None if it is empty."""
        text = bytearray()
        async with self._request(method, url, query, json=body) as answer:
            async for data in answer.content.iter_any():
                text += data
                if len(text) > ANSWER_BYTES:
                    raise RuntimeUnavailable(
                        f"Engine {self.address}: its answer has more than {ANSWER_BYTES} bytes."
                    )
        with understood(self.address):
            return json.loads(text) if text else None

    async def head(self, url: str, **query: str) -> Mapping[str, Any]:
        """Return the engine's metadata about a path, without its content."""
        async with self._request("HEAD", url, query) as answer:
            with understood(self.address):
                return _path_stat(answer)

    @asynccontextmanager
    async def download(
        self, url: str, *, silence_s: float | None = None, **query: str
    ) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        """Stream the content of the answer.
        Reads time out after `silence_s` without data; None means never.
        """
        async with self._request("GET", url, query, timeout=_streaming(silence_s)) as answer:
            yield self._content(answer)

    async def upload(self, url: str, chunks: AsyncIterable[bytes], **query: str) -> None:
        """Stream a body of any length at the engine's pace. Exceptions of `chunks` propagate."""
        async with self._request(
            "PUT", url, query, data=_body(chunks), timeout=_streaming(SILENCE_TIMEOUT_S)
        ):
            return

    async def hijack(self, url: str, body: Mapping[str, object]) -> tuple[Stream, bytes]:
        """Upgrade a connection to a raw stream; return the stream and the bytes already received."""
        with translated(self.address):
            return await hijack(self._endpoint.url, self._tls, url, json.dumps(body).encode())

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    @asynccontextmanager
    async def _request(
        self, method: str, url: str, query: Mapping[str, str], **more: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        with translated(self.address):
            async with self._session().request(
                method, self._endpoint.http_url + url, params=query, allow_redirects=False, **more
            ) as answer:
                if answer.status >= 300:
                    raise await _fault(answer)
                yield answer

    def _session(self) -> aiohttp.ClientSession:
        """Return the HTTP session, created at first use because it belongs to the running event
        loop.
        """
        if self._http is None:
            path = self._endpoint.url.removeprefix(UNIX)
            connector = (
                aiohttp.UnixConnector(path, limit=0)
                if self._endpoint.is_socket
                else aiohttp.TCPConnector(ssl=self._tls or False, limit=0)
            )
            timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S)
            self._http = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self._http

    async def _content(self, answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        with translated(self.address):
            async for data in answer.content.iter_chunked(READ_BYTES):
                yield data


def _streaming(silence_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_s)


async def _body(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        if chunk:
            yield chunk


async def _fault(answer: aiohttp.ClientResponse) -> RuntimeFault:
    text = (await answer.content.read(REFUSAL_BYTES)).decode(errors="replace")
    try:
        return fault_of_answer(answer.status, str(json.loads(text)["message"]))
    except (ValueError, KeyError, TypeError):
        return fault_of_answer(answer.status, text or f"HTTP {answer.status}")


def _path_stat(answer: aiohttp.ClientResponse) -> Mapping[str, Any]:
    status = json.loads(base64.b64decode(answer.headers[PATH_STAT_HEADER]))
    if not isinstance(status, dict):
        raise TypeError(type(status))
    return status


def _ssl_context(tls: TlsMaterial) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca_file)
    context.load_cert_chain(tls.cert_file, tls.key_file)
    return context
