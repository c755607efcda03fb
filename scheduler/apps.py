from typing import Any

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    name = "scheduler"

    def ready(self) -> None:
        """Subscribe ticks to the events after which a session may be placed."""
        from agents.events import CapacityChanged
        from common.messaging.events import subscribe
        from scheduler.web import menu
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
        menu.register()


def tick_its_group(event: Any) -> None:
    from scheduler.triggers import request_tick

    request_tick(event.resource_group_id)
