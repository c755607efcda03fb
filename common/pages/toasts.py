"""Undo messages, shown by the next page as a toast with an undo button."""

import json
from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.contrib.messages.storage.base import Message
from django.http import HttpRequest

_MARK = "undo "


def offer_undo(
    request: HttpRequest, text: str, undo_url: str, fields: Mapping[str, str | list[str]] | None = None
) -> None:
    """Show `text` on the next page for ten seconds, longer on hover, with a button that
    posts `fields` to `undo_url`; a list repeats its field. The target address decides
    whether undo is still possible.
    """
    pairs = [
        (name, value)
        for name, values in (fields or {}).items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    way_back = _MARK + json.dumps({"undo_url": undo_url, "undo_fields": pairs})
    messages.success(request, text, extra_tags=way_back)


def undo_toast(message: Message) -> dict[str, Any] | None:
    """Return the variables of the toast for this message; None for other messages."""
    tags = message.extra_tags or ""
    return {"text": message, **json.loads(tags.removeprefix(_MARK))} if tags.startswith(_MARK) else None
