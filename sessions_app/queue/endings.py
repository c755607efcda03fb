"""Outcome of a session that has ended, for sessions and arrays that come after it (`dependencies`).

The one place for this rule. The table that people read is in the user guide, under *After other sessions*.
"""

from enum import StrEnum

from django.db.models import Exists, OuterRef, Q

from sessions_app.core.states import Reason
from sessions_app.models import ComputeSession, Kernel, SessionType


class Ending(StrEnum):
    """SKIPPED: it never ran, because somebody took it back or because what it came after ended otherwise. It has neither succeeded
    nor failed, so whoever comes after its success or its failure is skipped too."""

    SUCCESS = "success"
    FAILURE = "failure"
    SKIPPED = "skipped"


_TRIED_AGAIN = Kernel.objects.filter(attempt__gt=1)  # a later attempt, whose session has no start yet
# Of a session that never ran. All other causes for which one does not run are failures: it was wanted and could not be.
_SKIPPED = frozenset({Reason.USER_REQUESTED, Reason.ADMIN_REQUESTED, Reason.DEPENDENCY_IN_VAIN})
_BATCH_SUCCESS = frozenset({Reason.COMMAND_FINISHED})
# A session in which people work has no end of its own: it has done its work when somebody or a limit ends it.
_INTERACTIVE_SUCCESS = _BATCH_SUCCESS | {
    Reason.USER_REQUESTED,
    Reason.ADMIN_REQUESTED,
    Reason.COMMAND_TIMED_OUT,
    Reason.CONTAINER_EXITED,
    Reason.LIFETIME_OVER,
    Reason.UNUSED,
    Reason.UNDERUSED,
}


def ending_of(session: ComputeSession) -> Ending | None:
    """Return how `session` ended; None while it lives."""
    if session.ended_at is None:
        return None
    may_be_skipped = session.started_at is None and session.status_reason in _SKIPPED
    if may_be_skipped and not _TRIED_AGAIN.filter(session=session).exists():
        return Ending.SKIPPED
    successes = _BATCH_SUCCESS if session.type == SessionType.BATCH else _INTERACTIVE_SUCCESS
    return Ending.SUCCESS if session.status_reason in successes else Ending.FAILURE


def ended_as(ending: Ending, prefix: str = "") -> Q:
    """Return the condition that `ending_of` returns `ending`, for rows from which `prefix` leads to a session."""

    def field(lookup: str, value: object) -> Q:
        return Q(**{f"{prefix}{lookup}": value})

    has_ended = field("ended_at__isnull", False)
    is_skipped = (
        field("started_at__isnull", True)
        & field("status_reason__in", sorted(_SKIPPED))
        & ~Q(Exists(_TRIED_AGAIN.filter(session=OuterRef(f"{prefix}pk"))))
    )
    is_batch = field("type", SessionType.BATCH.value)
    succeeded = (is_batch & field("status_reason__in", sorted(_BATCH_SUCCESS))) | (
        ~is_batch & field("status_reason__in", sorted(_INTERACTIVE_SUCCESS))
    )
    if ending is Ending.SKIPPED:
        return has_ended & is_skipped
    return has_ended & ~is_skipped & (succeeded if ending is Ending.SUCCESS else ~succeeded)
