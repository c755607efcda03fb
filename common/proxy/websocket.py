"""One websocket, from an ASGI server to an app and back, message by message."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import aiohttp
from yarl import URL

from common.proxy.asgi import Message, Receive, Scope, Send
from common.proxy.errors import UpstreamBroken, UpstreamError, UpstreamTimeout, UpstreamUnreachable
from common.proxy.headers import BodyFraming, HeaderRules, encode_head, request_headers
from common.proxy.target import Target
from common.proxy.transport import MAX_MESSAGE_BYTES, Transport

NORMAL, GOING_AWAY, INTERNAL_ERROR = 1000, 1001, 1011
_NO_STATUS, _ABNORMAL = 1005, 1006
# Seconds that the app is given to answer our close frame.
_CLOSE_S = 2.0
_REASON_LIMIT_BYTES = 123  # RFC 6455, 5.5: a control frame's payload without the code


class HandshakeRejected(UpstreamError):
    """The app itself said no; `status` is its HTTP status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"The app refused the websocket with status {status}.")
        self.status = status


async def forward_websocket(
    scope: Scope, receive: Receive, send: Send, *, transport: Transport, target: Target, rules: HeaderRules
) -> None:
    """Carry one websocket until either side closes it; the other side gets the code and the reason.

    Raises RequestRefused or UpstreamError while the client's handshake is still open. A side that does not read
    stops the other: nothing is queued beyond one message and the sockets' buffers.
    """
    upstream = await _connect(scope, transport, target, rules)
    try:
        await receive()  # websocket.connect
        await send({"type": "websocket.accept", "subprotocol": upstream.protocol})
        await _first_of(_carry_up(receive, upstream), _carry_down(upstream, send))
    except BaseException:
        # Cut from outside: the caller tells the client why; the app only sees it go.
        await upstream.close(code=GOING_AWAY)
        raise


async def reject_websocket(scope: Scope, receive: Receive, send: Send, *, status: int, text: str) -> None:
    """Answer the handshake with an HTTP error."""
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": GOING_AWAY})
        return
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


async def close_websocket(send: Send, *, code: int, reason: str = "") -> None:
    """Close an accepted websocket towards the client; one that has gone already is no error."""
    try:
        await send({"type": "websocket.close", "code": code, "reason": reason})
    except (OSError, RuntimeError):
        return


def sendable_code(code: int | None) -> int:
    """The code to pass on for one received. 1005, 1006 and 1015 only report what happened and may not be sent."""
    if code is None or code == _NO_STATUS:
        return NORMAL
    if code in (1000, 1001, 1002, 1003) or 1007 <= code <= 1014 or 3000 <= code <= 4999:
        return code
    return INTERNAL_ERROR


async def _connect(
    scope: Scope, transport: Transport, target: Target, rules: HeaderRules
) -> aiohttp.ClientWebSocketResponse:
    host = f"[{target.host}]" if ":" in target.host else target.host
    path = (scope["raw_path"] or b"/").decode("ascii")
    query = scope["query_string"].decode("ascii")
    url = URL(f"ws://{host}:{target.port}{path}" + (f"?{query}" if query else ""), encoded=True)
    scheme = "https" if scope["scheme"] == "wss" else "http"
    client_ip = scope["client"][0] if scope.get("client") else ""
    headers = request_headers(
        scope["headers"], rules, client_ip=client_ip, scheme=scheme, framing=BodyFraming()
    )
    encode_head(b"GET " + scope["raw_path"] + b"?" + scope["query_string"], headers)
    try:
        return await transport.websockets.ws_connect(
            url,
            headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers],
            protocols=scope["subprotocols"],
            compress=0,
            max_msg_size=MAX_MESSAGE_BYTES,
            timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_S),
        )
    except aiohttp.WSServerHandshakeError as exc:
        raise HandshakeRejected(exc.status) from exc
    except TimeoutError as exc:
        raise UpstreamTimeout("The app did not answer in time.") from exc
    except aiohttp.ClientConnectorError as exc:
        raise UpstreamUnreachable(f"Nothing listens on port {target.port}.") from exc
    except aiohttp.ClientError as exc:
        raise UpstreamBroken("The app does not speak websocket here.") from exc


async def _carry_up(receive: Receive, upstream: aiohttp.ClientWebSocketResponse) -> None:
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            await upstream.close(code=_code_for_app(message), message=_reason(message.get("reason")))
            return
        text = message.get("text")
        try:
            if text is not None:
                await upstream.send_str(text)
            else:
                await upstream.send_bytes(message["bytes"])
        except (aiohttp.ClientConnectionResetError, ConnectionError):
            await asyncio.Event().wait()  # the app has gone; the other direction reports its code and ends us


async def _carry_down(upstream: aiohttp.ClientWebSocketResponse, send: Send) -> None:
    reason = ""
    try:
        while True:
            message = await upstream.receive()
            if message.type is aiohttp.WSMsgType.TEXT:
                await send({"type": "websocket.send", "text": message.data})
            elif message.type is aiohttp.WSMsgType.BINARY:
                await send({"type": "websocket.send", "bytes": message.data})
            elif message.type is aiohttp.WSMsgType.CLOSE:
                reason = message.extra or ""
                break
            else:
                break
    except OSError:
        return  # the client has gone; the other direction ends
    await close_websocket(send, code=sendable_code(upstream.close_code), reason=reason)


async def _first_of(*directions: Coroutine[Any, Any, None]) -> None:
    """Run both directions until one ends, then end the other. Raises what the one that ended raised."""
    tasks = [asyncio.ensure_future(direction) for direction in directions]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def _code_for_app(message: Message) -> int:
    """A client that vanished without a word is, for the app, one that went away."""
    code = message.get("code")
    return GOING_AWAY if code == _ABNORMAL else sendable_code(code)


def _reason(text: str | None) -> bytes:
    return (text or "").encode()[:_REASON_LIMIT_BYTES]
