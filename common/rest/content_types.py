"""Renderers other than JSON, and content negotiation."""

from typing import Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request


class PlainTextRenderer(JSONRenderer):
    """Accepts `Accept: text/plain` for views that return text themselves; refusals are JSON."""

    media_type = "*/*"
    format = "txt"

    def render(self, data, accepted_media_type=None, renderer_context=None):  # type: ignore[no-untyped-def]
        return super().render(data, "application/json", renderer_context)


class AnyAccept(BaseContentNegotiation):
    """Content negotiation that ignores Accept, for streamed responses."""

    def select_parser(self, request: Request, parsers: Any) -> None:
        return None

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type
