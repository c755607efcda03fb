"""Request bodies that reach a view as a stream, and are stored only once.

Django keeps a whole body in a temporary file before it calls a view. A view that lists a method in
`streamed_methods` is called before the body: it checks who sends it, and returns a `BodyResponse`,
whose coroutine then takes the body and completes the response. In between no thread waits, so that
slow clients cost none. `portal.processes.body_stream` hands the stream to Django.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from asgiref.sync import async_to_sync
from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve
from django.utils.translation import get_language, ngettext, override
from django.utils.translation import gettext as _

from common.errors import BerthError, TooManyRequests
from common.messaging.concurrency import ConcurrencyLimit, TooManyOpen
from common.rest.errors import as_refusal

SCOPE_KEY = "berth.body"
MIN_PIECE_BYTES = 64 * 1024
MAX_PIECE_BYTES = 2 * 2**20
MEMORY_BYTES = 6 * 2**20
PAUSE_S = 0.5
SILENCE_S = 60.0
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class ClientGone(Exception):
    """The client left before the end of its body."""


class SilentClient(BerthError):
    """Nothing of the body came for SILENCE_S."""

    default_code = "request_timeout"
    http_status = 408


class RequestBody:
    """Body of one request, received as it is asked for: in pieces of about `piece_bytes`, and each PAUSE_S
    what has arrived, perhaps nothing, so that a receiver can look around. `length` is the
    Content-Length, None for a chunked body. Iterating raises ClientGone and SilentClient.
    """

    def __init__(self, receive: Receive, length: int | None) -> None:
        self._receive = receive
        self._is_whole = False
        self.length = length

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        _bodies.add(self)
        silent_s = 0.0
        try:
            while not self._is_whole:
                parts: list[bytes] = []
                try:
                    async with asyncio.timeout(PAUSE_S):
                        await self._gather(parts)
                except TimeoutError:
                    pass
                except ClientGone:
                    yield parts
                    raise
                yield parts
                silent_s = 0.0 if any(parts) else silent_s + PAUSE_S
                if silent_s >= SILENCE_S and not self._is_whole:
                    raise SilentClient(
                        _("Nothing came for a minute, so the portal ended the transfer."),
                        hint=_("Send it again."),
                    )
        finally:
            _bodies.discard(self)

    async def _gather(self, parts: list[bytes]) -> None:
        """Add what arrives to `parts` until they are a piece, or the body is whole."""
        missing = piece_bytes(len(_bodies))
        while missing > 0 and not self._is_whole:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            self._is_whole = not message.get("more_body", False)
            parts.append(message.get("body", b""))
            missing -= len(parts[-1])


_bodies: WeakSet[RequestBody] = WeakSet()
"""Bodies that are being received by this process; together they hold MEMORY_BYTES."""
open_bodies = ConcurrencyLimit("bodies", 64)


def piece_bytes(count: int) -> int:
    """Return the size of the pieces of each of `count` transfers: large ones cost less time, and all
    together hold little memory.
    """
    return max(MIN_PIECE_BYTES, min(MAX_PIECE_BYTES, MEMORY_BYTES // max(1, count)))


@dataclass(frozen=True, slots=True)
class Answer:
    """Response to a received body. `content` is bytes, or sent as JSON; None for an empty response."""

    status: int = 200
    content: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


Work = Callable[[RequestBody], Awaitable[Answer]]


class BodyResponse(HttpResponse):
    """Response that is complete after `take_body`; until then it has only the headers of middleware."""

    takes_body = True  # for middleware: the client may take its time

    def __init__(
        self,
        body: RequestBody,
        work: Work,
        headers: Mapping[str, str] | None = None,
        user_id: int | None = None,
    ) -> None:
        super().__init__(content_type="application/json", headers=headers)
        self._body = body
        self._user_id = user_id
        self._work = work
        self._language = get_language()

    async def take_body(self) -> None:
        """Receive the body and complete the response. A refusal completes it, too. Raises ClientGone."""
        with override(self._language):
            try:
                async with _counted(self._user_id):
                    answer = await self._work(self._body)
            except ClientGone:
                raise
            except Exception as error:
                refusal = as_refusal(error)
                if refusal is None:
                    raise
                answer = Answer(refusal.http_status, refusal.to_json(), refusal.headers())
        self.status_code = answer.status
        is_bytes = isinstance(answer.content, bytes | None)
        self.content = (
            (answer.content or b"") if is_bytes else json.dumps(answer.content, cls=DjangoJSONEncoder)
        )
        if answer.content is None:
            del self.headers["Content-Type"]
        self.headers["Content-Length"] = str(len(self.content))
        for name, value in answer.headers.items():
            self.headers[name] = value


@asynccontextmanager
async def _counted(user_id: int | None) -> AsyncIterator[None]:
    """Count one more open body of the user; None for one that has arrived. Raises TooManyRequests."""
    if user_id is None:
        yield
        return
    try:
        async with open_bodies.hold(user_id):
            yield
    except TooManyOpen:
        limit = open_bodies.limit
        raise TooManyRequests(
            ngettext(
                "{count} of your transfers is under way, as many as there may be.",
                "{count} of your transfers are under way, as many as there may be.",
                limit,
            ).format(count=limit),
            hint=_("Wait for one to end."),
        ) from None


def with_body(request: HttpRequest, work: Work, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return the response of a view that takes the body of this request by `work`.

    If the server has stored the body before (Django's development server, its test client), the
    response is complete at once.
    """
    body: RequestBody | None = getattr(request, "scope", {}).get(SCOPE_KEY)
    if body is not None:
        return BodyResponse(body, work, headers, request.user.pk)
    response = BodyResponse(_stored_body(request), work, headers)
    async_to_sync(response.take_body)()
    return response


def takes_stream(method: str, path: str) -> bool:
    """Return True if the view at `path` takes bodies of this method as a stream."""
    if method in ("GET", "HEAD"):
        return False
    try:
        view = getattr(resolve(path).func, "cls", None)
    except Resolver404:
        return False
    return method in getattr(view, "streamed_methods", ())


def _stored_body(request: HttpRequest) -> RequestBody:
    def messages() -> Iterator[Message]:
        while piece := request.read(MIN_PIECE_BYTES):
            yield {"type": "http.request", "body": piece, "more_body": True}
        yield {"type": "http.request", "body": b""}

    stored = messages()

    async def receive() -> Message:
        return next(stored)

    length = request.META.get("CONTENT_LENGTH") or ""
    return RequestBody(receive, int(length) if length.isdecimal() else None)
