"""Domain events within one process, after commit: `publish` publishes, `subscribe` receives.

A handler must be light (enqueue a task, publish a live update). Its effect must also happen without
it: a periodic task repairs what a lost event missed.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import structlog
from django.db import transaction

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events; each app defines its own in `<app>/events.py`."""


E = TypeVar("E", bound=Event)
_handlers: dict[type[Event], list[Callable[[Any], None]]] = defaultdict(list)


def subscribe(event_type: type[E], handler: Callable[[E], None]) -> None:
    """Call `handler` for each event of exactly this type. Subscribing twice has no effect."""
    if handler not in _handlers[event_type]:
        _handlers[event_type].append(handler)


def publish(event: Event) -> None:
    """Pass `event` to its subscribers when the current transaction commits; never on rollback.

    A handler that fails is logged and affects neither other handlers nor the caller.
    """
    for handler in _handlers[type(event)]:
        transaction.on_commit(partial(handler, event), robust=True)
