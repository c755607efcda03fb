"""Live updates of pages about changed sessions."""

from collections.abc import Sequence
from uuid import UUID

from common.messaging.live_updates import Audience, push_many_on_commit
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession

Told = tuple[UUID, int, int, int]  # a session, and whose it is: owner, project, domain

_CHANGED = "session-changed"


def push_session_change(session: ComputeSession) -> None:
    """Tell open pages that this session looks different now."""
    whose = session.pk, session.owner_id, session.project_id, session.domain_id
    push_sessions_changed([whose], Status(session.status))


def push_sessions_changed(told: Sequence[Told], status: Status) -> None:
    """Tell open pages that these sessions, all in `status`, look different now."""
    push_many_on_commit(
        _CHANGED,
        [
            (Audience(owner_id, project_id, domain_id), {"id": str(session_id), "status": status.value})
            for session_id, owner_id, project_id, domain_id in told
        ],
    )
