"""The stream of news."""

import json
import time
from collections.abc import Iterator

from berth.errors import Unreachable
from berth.models import Event
from berth.transport import Transport

SILENCE_S = 60.0  # the portal says every 15 s that it is still there
PAUSE_S = 1.0


def follow_events(transport: Transport) -> Iterator[Event]:
    """News about what one may see, for ever; goes on by itself after a lost connection, without a gap.

    News carry ids, not contents. An event of kind `news-missed` means: ask for everything again. Raises BerthError
    when the portal stays away.
    """
    last_id = ""
    while True:
        headers = {"Last-Event-ID": last_id} if last_id else {}
        is_open = False
        try:
            with transport.stream("GET", "events/", headers=headers, silence_s=SILENCE_S) as answer:
                is_open = True
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
            told = json.loads(data) if data else {}
            yield Event(kind=str(told.get("kind", "")), event_id=event_id, raw=told)
            event_id, data = "", ""
