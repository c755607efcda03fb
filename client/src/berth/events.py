"""Follow the portal's live event stream."""

import json
import time
from collections.abc import Iterator
from typing import Any

from berth.errors import UnexpectedAnswer, Unreachable
from berth.models import Event
from berth.transport import Transport

SILENCE_S = 60.0  # the portal sends a keep-alive every 15 s
PAUSE_S = 1.0


def follow_events(transport: Transport) -> Iterator[Event]:
    """Yield live events that the user may see, without end; reconnects without losing events.

    Events carry ids, not contents. An event of kind `news-missed` means that events were lost:
    fetch everything again. Raises BerthError if the portal stays unreachable.
    """
    last_id = ""
    while True:
        headers = {"Last-Event-ID": last_id} if last_id else {}
        is_open = False
        try:
            with transport.stream("GET", "events/", headers=headers, silence_s=SILENCE_S) as answer:
                is_open = True
                if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
                    raise UnexpectedAnswer(f"{transport.url} sent no stream of news.")
                for event in _parse(answer.iter_lines()):
                    last_id = event.event_id or last_id
                    if event.kind:
                        yield event
        except Unreachable:
            if not is_open:
                raise
        time.sleep(PAUSE_S)


def _parse(lines: Iterator[str]) -> Iterator[Event]:
    event_id, data = "", ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "id":
            event_id = value
        elif name == "data":
            data = value
        elif not line and (event_id or data):
            fields = _object(data)
            yield Event(kind=str(fields.get("kind", "")), event_id=event_id, raw=fields)
            event_id, data = "", ""


def _object(data: str) -> dict[str, Any]:
    try:
        fields = json.loads(data or "{}")
    except (ValueError, RecursionError) as exc:
        raise UnexpectedAnswer("The portal sent news that are no JSON.") from exc
    if not isinstance(fields, dict):
        raise UnexpectedAnswer("The portal sent news that are no object of fields.")
    return fields
