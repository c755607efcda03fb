from typing import Any

from django.apps import AppConfig
from django.utils.translation import gettext_noop

from common.pages.navigation import MenuItem, Section, register


class SchedulerConfig(AppConfig):
    name = "scheduler"

    def ready(self) -> None:
        """Subscribe ticks to the events after which a session may be placed."""
        from agents.events import CapacityChanged
        from common.messaging.events import subscribe
        from sessions_app.events import (
            CapacityReleased,
            SessionEnqueued,
            SessionReprioritized,
            SessionsEnqueued,
        )

        for event_type in (
            SessionEnqueued,
            SessionsEnqueued,
            CapacityReleased,
            CapacityChanged,
            SessionReprioritized,
        ):
            subscribe(event_type, tick_its_group)
        register(MenuItem(gettext_noop("Queue"), "queue", "hourglass", Section.METRICS, order=50))


def tick_its_group(event: Any) -> None:
    from scheduler.triggers import request_tick

    request_tick(event.resource_group_id)
