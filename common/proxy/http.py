"""One HTTP request, from an ASGI server to an app and back, streamed."""

import asyncio
import contextlib
import logging

from common.proxy.asgi import Receive, Scope, Send
from common.proxy.connection import Connection, ResponseHead
from common.proxy.errors import UpstreamBroken, UpstreamError, UpstreamTimeout
from common.proxy.headers import (
    BodyFraming,
    HeaderRules,
    body_framing,
    request_head,
    response_headers,
)
from common.proxy.target import Target
from common.proxy.transport import Transport

logger = logging.getLogger(__name__)

# A request of these without a body may be sent a second time (RFC 9110, 9.2.2).
_REPLAYABLE = frozenset(("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"))
_LARGEST_STATUS = 599


async def forward_http(
    scope: Scope, receive: Receive, send: Send, *, transport: Transport, target: Target, rules: HeaderRules
) -> None:
    """Carry one request to the target and its answer back, holding at most some 100 KB of either body.

    Raises RequestRefused or UpstreamError while the client has received nothing. Later the answer is cut short,
    which the client sees as such. The request upstream ends when the client goes.
    """
    framing = body_framing(scope["headers"])
    head = request_head(scope, rules, framing)
    connection, response, uplink = await _ask(scope, receive, transport, target, framing, head)
    is_whole = False
    try:
        is_whole = await _answer(scope, send, connection, response, rules)
    finally:
        uplink.stop()
        if is_whole and uplink.is_body_sent:
            transport.pool.release(connection)
        else:
            connection.abort()


async def _ask(
    scope: Scope, receive: Receive, transport: Transport, target: Target, framing: BodyFraming, head: bytes
) -> "tuple[Connection, ResponseHead, _Uplink]":
    """Send the request and wait for the answer's head. A kept connection may have died unnoticed: then, and only
    if the request can be repeated, it is sent once more on a new one. Others go on a new one at once."""
    method = scope["method"]
    is_replayable = method in _REPLAYABLE and not framing.has_body
    connection = await transport.pool.connect(target, is_new=not is_replayable)
    while True:
        uplink = _Uplink(receive, connection, framing, transport.timeouts.watch_after_s)
        try:
            connection.start(method, head)
            uplink.start()
            async with asyncio.timeout(transport.timeouts.response_head_s):
                response = await connection.response()
            if response.status > _LARGEST_STATUS:
                raise UpstreamBroken(f"The app answered with status {response.status}.")
            return connection, response, uplink
        except TimeoutError as exc:
            _give_up(uplink, connection)
            raise UpstreamTimeout("The app did not answer in time.") from exc
        except UpstreamError:
            _give_up(uplink, connection)
            if not (connection.is_reused and is_replayable) or connection.has_heard or uplink.is_client_gone:
                raise
            connection = await transport.pool.connect(target, is_new=True)
        except BaseException:
            _give_up(uplink, connection)
            raise


async def _answer(
    scope: Scope, send: Send, connection: Connection, response: ResponseHead, rules: HeaderRules
) -> bool:
    """Stream the answer to the client. True when it was whole."""
    has_body = scope["method"] == "HEAD" or response.status not in (204, 304)
    headers = response_headers(response.headers, rules, has_body=has_body)
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    is_last = False
    while not is_last:
        try:
            chunk = await connection.next_chunk()
        except UpstreamError as exc:
            # Too late for an error page: leaving the answer unfinished is how the client learns of it.
            logger.info("response cut short: %s", exc)
            return False
        is_last = not chunk or connection.is_drained
        await send({"type": "http.response.body", "body": chunk, "more_body": not is_last})
    return True


def _give_up(uplink: "_Uplink", connection: Connection) -> None:
    uplink.stop()
    connection.abort()


class _Uplink:
    """The client's side of one exchange: carries its body upstream, then watches for its leaving, as a server's
    `send` to a client that has gone does nothing and an endless stream would flow for ever."""

    def __init__(
        self, receive: Receive, connection: Connection, framing: BodyFraming, watch_after_s: float
    ) -> None:
        self.is_body_sent = not framing.has_body
        self.is_client_gone = False
        self._receive = receive
        self._connection = connection
        self._framing = framing
        self._watch_after_s = watch_after_s
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._framing.has_body:
            self._launch()
        else:
            self._timer = asyncio.get_running_loop().call_later(self._watch_after_s, self._launch)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _launch(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        with contextlib.suppress(
            UpstreamError
        ):  # the reader of the response meets the same error and reports it
            if self._framing.has_body:
                await self._send_body()
            while not self.is_client_gone:
                message = await self._receive()
                self.is_client_gone = message["type"] == "http.disconnect"
        if self.is_client_gone:
            self._connection.abort()

    async def _send_body(self) -> None:
        while not (self.is_body_sent or self.is_client_gone):
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.is_client_gone = True
                return
            body = message.get("body", b"")
            is_last = not message.get("more_body", False)
            if self._framing.is_chunked:
                if body:
                    body = b"%x\r\n%b\r\n" % (len(body), body)
                if is_last:
                    body += b"0\r\n\r\n"
            if body:
                await self._connection.write(body)
            self.is_body_sent = is_last
