"""Renderers beside JSON, and the choice of the content type of an answer."""

from typing import Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request


class PlainTextRenderer(JSONRenderer):
    """Accepts `Accept: text/plain` for views that answer text themselves; refusals are JSON all the same."""

    media_type = "*/*"
    format = "txt"

    def render(self, data, accepted_media_type=None, renderer_context=None):  # type: ignore[no-untyped-def]
        return super().render(data, "application/json", renderer_context)


class AnyAccept(BaseContentNegotiation):
    """What is streamed is sent as it is, whatever types the client says it would like."""

    def select_parser(self, request: Request, parsers: Any) -> None:
        return None

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type
