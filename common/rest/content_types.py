"""Renderers other than JSON, and content negotiation."""

from typing import Any

from django.http import QueryDict
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request


class PlainTextRenderer(JSONRenderer):
    """Accepts `Accept: text/plain` for views that return text themselves; refusals are JSON."""

    media_type = "*/*"
    format = "txt"

    def render(self, data, accepted_media_type=None, renderer_context=None):  # type: ignore[no-untyped-def]
        return super().render(data, "application/json", renderer_context)


class UnreadBody(BaseParser):
    """Leaves a body of any type to the view. The check of session cookies asks for the form fields of
    each POST, and would refuse one that nothing can parse.
    """

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> QueryDict:
        return QueryDict()


class AnyAccept(BaseContentNegotiation):
    """Content negotiation that ignores Accept and the type of the body, for views that stream."""

    def select_parser(self, request: Request, parsers: Any) -> BaseParser:
        return UnreadBody()

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type
