"""Defines the outcome of an ended session for its dependents: success, failure or skipped.

The only place of this rule. The user guide has the table, under *After other sessions*.
"""

from enum import StrEnum

from django.db.models import Exists, OuterRef, Q

from sessions_app.core.states import Reason
from sessions_app.models import ComputeSession, Kernel, SessionType


class Ending(StrEnum):
    """Outcome of a session for its dependents.

    SKIPPED: it never ran, because it was cancelled by a user or its own dependency was not met.
    That is neither success nor failure, so dependents on either are skipped too.
    """

    SUCCESS = "success"
    FAILURE = "failure"
    SKIPPED = "skipped"


_TRIED_AGAIN = Kernel.objects.filter(attempt__gt=1)  # a later attempt, whose session has no start yet
# Reasons for a session that never ran. All other reasons not to run are failures.
_SKIPPED = frozenset({Reason.USER_REQUESTED, Reason.ADMIN_REQUESTED, Reason.DEPENDENCY_IN_VAIN})
_BATCH_SUCCESS = frozenset({Reason.COMMAND_FINISHED})
# An interactive session has no end of its own: it succeeded when a user or a limit ends it.
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
    """Return the outcome of `session`; None while it is live."""
    if session.ended_at is None:
        return None
    may_be_skipped = session.started_at is None and session.status_reason in _SKIPPED
    if may_be_skipped and not _TRIED_AGAIN.filter(session=session).exists():
        return Ending.SKIPPED
    successes = _BATCH_SUCCESS if session.type == SessionType.BATCH else _INTERACTIVE_SUCCESS
    return Ending.SUCCESS if session.status_reason in successes else Ending.FAILURE


def ended_as(ending: Ending, prefix: str = "") -> Q:
    """Return the SQL condition that `ending_of` returns `ending`.

    `prefix` is the path from the row to the session.
    """

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
