"""Django as an ASGI application."""

from collections.abc import Awaitable, Callable, Mapping
from io import SEEK_END
from typing import IO, Any

from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http.response import HttpResponseBase

from common.rest.request_body import BodyResponse, ClientGone


class BodyHandler(ASGIHandler):
    """Adds Content-Length to chunked requests: Django would see an empty body without it. Completes
    responses whose views take the body as a stream.
    """

    chunk_size = 2**20  # of responses; the server has flow control of its own

    def create_request(
        self, scope: Mapping[str, Any], body_file: IO[bytes]
    ) -> tuple[ASGIRequest, None] | tuple[None, HttpResponseBase]:
        if not any(name == b"content-length" for name, _ in scope["headers"]):
            size = body_file.seek(0, SEEK_END)
            body_file.seek(0)
            scope = {**scope, "headers": [*scope["headers"], (b"content-length", b"%d" % size)]}
        return super().create_request(scope, body_file)

    async def send_response(
        self, response: HttpResponseBase, send: Callable[[Mapping[str, Any]], Awaitable[None]]
    ) -> None:
        if isinstance(response, BodyResponse):
            try:
                await response.take_body()
            except ClientGone:
                return
        await super().send_response(response, send)
