"""Subscribes to domain events that cause notifications."""

from accounts.events import PasswordsTried
from common import clock
from common.messaging.events import subscribe
from portal.notifications.catalogue import Code
from portal.notifications.service import notify
from portal.notifications.session_end import notify_of_ends
from portal.notifications.session_warning import notify_of_warnings
from sessions_app.events import SessionEndsSoon, SessionsEnded


def listen() -> None:
    subscribe(SessionsEnded, tell_the_owners)
    subscribe(SessionEndsSoon, tell_of_an_end)
    subscribe(PasswordsTried, tell_whose_password)


def tell_the_owners(event: SessionsEnded) -> None:
    notify_of_ends(event.session_ids)


def tell_of_an_end(event: SessionEndsSoon) -> None:
    notify_of_warnings(event.session_id)


def tell_whose_password(event: PasswordsTried) -> None:
    notify(
        person_id=event.user_id,
        code=Code.PASSWORDS_TRIED,
        happening=f"passwords-tried:{clock.now().date()}",
        arguments={},
    )
