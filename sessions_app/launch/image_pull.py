"""Progress of an image pull, for the pages of the session that waits for it."""

import time
from uuid import UUID

from django.core.cache import cache

from agents.runtime.port import PullProgress
from common.messaging.live_updates import Audience, push_now
from sessions_app.core.states import Status
from sessions_app.lifecycle.transitions import IllegalTransition
from sessions_app.models import ComputeSession

KEPT_S = 60


def pull_progress(session_id: UUID) -> PullProgress | None:
    """Return the progress of the pull as reported within the last minute, or None."""
    heard = cache.get(_key(session_id))
    return PullProgress(*heard) if heard else None


class PullReporter:
    """Publish the pull's progress once a second, and abort the pull if the session was stopped."""

    def __init__(self, session: ComputeSession) -> None:
        self._session_id = session.pk
        self._audience = Audience(session.owner_id, session.project_id, session.domain_id)
        self._next_at = 0.0

    def __call__(self, progress: PullProgress) -> None:
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + 1
        numbers = (progress.done_bytes, progress.total_bytes, progress.layers_done, progress.layers_total)
        cache.set(_key(self._session_id), numbers, KEPT_S)
        push_now("session-pull", audience=self._audience, payload={"id": str(self._session_id)})
        status = ComputeSession.objects.values_list("status", flat=True).get(pk=self._session_id)
        if status != Status.PREPARING:
            raise IllegalTransition(f"The session is {status}; its image is not needed any more.")


def _key(session_id: UUID) -> str:
    return f"pull:{session_id}"
