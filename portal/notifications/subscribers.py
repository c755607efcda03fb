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
from vfolders.events import ShareNews, SharingChanged


def listen() -> None:
    subscribe(SessionsEnded, on_sessions_ended)
    subscribe(SessionEndsSoon, on_session_ends_soon)
    subscribe(DeviceLimitsLost, on_device_limits_lost)
    subscribe(DevicesInTrouble, on_devices_in_trouble)
    subscribe(AgentDrained, on_agent_drained)
    subscribe(PasswordGuessingDetected, on_passwords_tried)
    subscribe(SharingChanged, on_sharing_changed)


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


def on_sharing_changed(event: SharingChanged) -> None:
    notify(
        person_id=event.person_id,
        code=_CODES_OF_SHARES[event.news],
        happening=f"share:{event.share_id}:{event.news}:{clock.now().isoformat()}",
        arguments={"name": event.folder, "by": event.by},
    )


_CODES_OF_SHARES = {
    ShareNews.INVITED: Code.FOLDER_INVITED,
    ShareNews.OFFERED: Code.FOLDER_OFFERED,
    ShareNews.ACCEPTED: Code.FOLDER_ACCEPTED,
    ShareNews.DECLINED: Code.FOLDER_DECLINED,
    ShareNews.TAKEN: Code.FOLDER_TAKEN,
    ShareNews.LEFT: Code.FOLDER_LEFT,
    ShareNews.CHANGED: Code.FOLDER_RIGHT_CHANGED,
    ShareNews.REVOKED: Code.FOLDER_REVOKED,
}
