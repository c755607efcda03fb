"""Renderers beside JSON."""

from rest_framework.renderers import JSONRenderer


class PlainTextRenderer(JSONRenderer):
    """Accepts `Accept: text/plain` for views that answer text themselves; refusals are JSON all the same."""

    media_type = "*/*"
    format = "txt"

    def render(self, data, accepted_media_type=None, renderer_context=None):  # type: ignore[no-untyped-def]
        return super().render(data, "application/json", renderer_context)
