"""What was just done, with the way back: a message that the next page shows as a toast (templates/includes/toast.html)."""

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
    """Show `text` on the next page for ten seconds, longer while somebody points at it, with a button that posts
    `fields` to `undo_url`, one of many values as often as it has values. Whether it can still be undone is for that address to decide."""
    pairs = [
        (name, value)
        for name, values in (fields or {}).items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    way_back = _MARK + json.dumps({"undo_url": undo_url, "undo_fields": pairs})
    messages.success(request, text, extra_tags=way_back)


def toast_of(message: Message) -> dict[str, Any] | None:
    """The variables of the toast that this message is; None for every other message."""
    tags = message.extra_tags or ""
    return {"text": message, **json.loads(tags.removeprefix(_MARK))} if tags.startswith(_MARK) else None
