"""Files of people as answers: saved, never shown."""

from urllib.parse import quote

from django.utils.http import content_disposition_header


def attachment_header(name: str) -> str:
    """Content-Disposition that saves what is sent as `name`, which may hold anything that a name of a file can."""
    if name.isprintable():
        return content_disposition_header(True, name) or "attachment"
    return (
        f"attachment; filename*=utf-8''{quote(name, safe='', errors='replace')}"  # no line breaks in a header
    )
