"""Subscribes to domain events that cause notifications."""

from accounts.events import PasswordGuessingDetected
from agents.events import AgentDrained, DevicesInTrouble
from common import clock
from common.messaging.events import subscribe
from portal.notifications.catalogue import Code
from portal.notifications.machine_trouble import notify_of_drain, notify_of_trouble
from portal.notifications.service import notify
from portal.notifications.session_end import notify_of_ends
from portal.notifications.session_warning import notify_of_warnings
from sessions_app.events import DeviceLimitsLost, SessionEndsSoon, SessionsEnded
from sessions_app.models import ComputeSession


def listen() -> None:
    subscribe(SessionsEnded, on_sessions_ended)
    subscribe(SessionEndsSoon, on_session_ends_soon)
    subscribe(DeviceLimitsLost, on_device_limits_lost)
    subscribe(DevicesInTrouble, on_devices_in_trouble)
    subscribe(AgentDrained, on_agent_drained)
    subscribe(PasswordGuessingDetected, on_passwords_tried)


def on_sessions_ended(event: SessionsEnded) -> None:
    notify_of_ends(event.session_ids)


def on_session_ends_soon(event: SessionEndsSoon) -> None:
    notify_of_warnings(event.session_id)


def on_device_limits_lost(event: DeviceLimitsLost) -> None:
    at = clock.now().isoformat()
    for session in ComputeSession.objects.filter(pk__in=event.session_ids):
        notify(
            person_id=session.owner_id,
            code=Code.DEVICE_LIMITS_LOST,
            happening=f"device-limits:{session.pk}:{at}",
            arguments={"name": session.name},
            session_id=session.pk,
        )


def on_devices_in_trouble(event: DevicesInTrouble) -> None:
    notify_of_trouble(event.device_ids, event.because)


def on_agent_drained(event: AgentDrained) -> None:
    notify_of_drain(event)


def on_passwords_tried(event: PasswordGuessingDetected) -> None:
    notify(
        person_id=event.user_id,
        code=Code.PASSWORDS_TRIED,
        happening=f"passwords-tried:{clock.now().date()}",
        arguments={},
    )
