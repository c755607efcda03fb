"""Expected ends of sessions that hold allocations."""

from datetime import datetime, timedelta

from django.db.models import Q

from sessions_app.core.states import DEADLINES_S, Status

_SESSION = "kernel__session__"
# Columns of allocation rows in the order of `known_end`'s arguments.
END_COLUMNS = tuple(
    f"{_SESSION}{column}" for column in ("status", "deadline_at", "status_changed_at", "max_runtime_s")
)
HAS_MAX_RUNTIME = Q(**{f"{_SESSION}max_runtime_s__isnull": False})
HAS_EXPECTED_END = Q(**{f"{_SESSION}status": Status.TERMINATING.value}) | HAS_MAX_RUNTIME


def expected_end(
    status: str, deadline_at: datetime, changed_at: datetime, max_runtime_s: int | None
) -> datetime | None:
    """Return the latest end of a session with allocations; None if unknown.

    An estimate that is too early is safe: it only keeps more capacity free.
    """
    if status == Status.TERMINATING:  # its deadline is postponed while its agent does not answer
        return latest_removal(changed_at)
    if max_runtime_s is None:
        return None
    return deadline_at if status == Status.RUNNING else changed_at + timedelta(seconds=max_runtime_s)


def latest_removal(ended_at: datetime) -> datetime:
    """Return the latest time at which containers are removed if termination began at `ended_at`."""
    return ended_at + timedelta(seconds=DEADLINES_S[Status.TERMINATING])
