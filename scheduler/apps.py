from typing import Any

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    name = "scheduler"

    def ready(self) -> None:
        """Tick a group when a session begins to wait there, and when it may have room again; answer what would be."""
        from agents.events import CapacityChanged
        from common.events import subscribe
        from scheduler.forecast import foresee, prospect_of
        from scheduler.kept_ticks import keep_standing
        from scheduler.web import menu
        from sessions_app import holds
        from sessions_app.admission import forecast
        from sessions_app.events import (
            CapacityReleased,
            SessionEnqueued,
            SessionReprioritized,
            SessionsEnqueued,
        )

        subscribe(SessionEnqueued, place_newcomer)
        for event_type in (SessionsEnqueued, CapacityReleased, CapacityChanged, SessionReprioritized):
            subscribe(event_type, tick_its_group)
        menu.register()
        forecast.register(foresee, prospect_of)
        holds.register_noter(keep_standing)


def place_newcomer(event: Any) -> None:
    from scheduler.asking import request_placement

    request_placement(event.resource_group_id, event.session_id)


def tick_its_group(event: Any) -> None:
    from scheduler.asking import request_tick

    request_tick(event.resource_group_id)
