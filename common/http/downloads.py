"""Response headers that make browsers save users' files instead of showing them."""

from urllib.parse import quote

from django.utils.http import content_disposition_header


def attachment_header(name: str) -> str:
    """Return a Content-Disposition to save the response as `name`, which may be any text."""
    if name.isprintable():
        return content_disposition_header(True, name) or "attachment"
    return f"attachment; filename*=utf-8''{quote(name, safe='', errors='replace')}"  # escapes line breaks
