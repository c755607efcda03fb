"""Django as an ASGI application."""

from collections.abc import Mapping
from io import SEEK_END
from typing import IO, Any

import django
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http.response import HttpResponseBase


class MeasuringHandler(ASGIHandler):
    """Adds Content-Length to chunked requests: Django would see an empty body without it."""

    def create_request(
        self, scope: Mapping[str, Any], body_file: IO[bytes]
    ) -> tuple[ASGIRequest, None] | tuple[None, HttpResponseBase]:
        if not any(name == b"content-length" for name, _ in scope["headers"]):
            size = body_file.seek(0, SEEK_END)
            body_file.seek(0)
            scope = {**scope, "headers": [*scope["headers"], (b"content-length", b"%d" % size)]}
        return super().create_request(scope, body_file)


def make_django_application() -> MeasuringHandler:
    django.setup(set_prefix=False)
    return MeasuringHandler()
