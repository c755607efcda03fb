"""Pushes live updates about changed sessions to open pages."""

from collections.abc import Iterable
from operator import attrgetter
from uuid import UUID

from common.messaging.live_updates import Audience, push_many_on_commit
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession

SessionAudience = tuple[UUID, int, int, int]  # session id and its audience: owner, project, domain
AUDIENCE_COLUMNS = ("id", "owner_id", "project_id", "domain_id")
audience_of = attrgetter(*AUDIENCE_COLUMNS)

_CHANGED = "session-changed"


def push_session_change(session: ComputeSession) -> None:
    """Notify open pages after commit that this session has changed."""
    push_sessions_changed([audience_of(session)], Status(session.status))


def push_sessions_changed(audiences: Iterable[SessionAudience], status: Status) -> None:
    """Notify open pages after commit that these sessions, all in `status`, have changed."""
    push_many_on_commit(
        _CHANGED,
        [
            (Audience(owner_id, project_id, domain_id), {"id": str(session_id), "status": status.value})
            for session_id, owner_id, project_id, domain_id in audiences
        ],
    )
