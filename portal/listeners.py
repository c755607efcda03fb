"""Domain news that become notifications."""

from common.events import subscribe
from portal.services import notify_of_end
from sessions_app.events import SessionEnded


def listen() -> None:
    subscribe(SessionEnded, tell_the_owner)


def tell_the_owner(event: SessionEnded) -> None:
    notify_of_end(event.session_id)
