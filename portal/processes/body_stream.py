"""Hands request bodies to views as streams, past Django's temporary file."""

import asyncio

from common.rest.request_body import SCOPE_KEY, RequestBody, takes_stream
from transport.server.asgi import AsgiApp, Message, Receive, Scope, Send


class BodyStream:
    """ASGI wrapper of Django: for views that take a stream (`streamed_methods`), Django gets an empty
    body, and the view the stream, with which it learns of a client that leaves.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not takes_stream(scope["method"], scope["path"]):
            await self._app(scope, receive, send)
            return
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        body = RequestBody(receive, int(length) if length.isdigit() else None)
        is_asked = False

        async def no_body() -> Message:
            nonlocal is_asked
            if is_asked:
                await asyncio.Event().wait()  # cancelled at the end of the request
            is_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}

        await self._app({**scope, SCOPE_KEY: body}, no_body, send)
