"""When those that hold something will have ended, as far as that is known."""

from datetime import datetime, timedelta

from django.db.models import Q

from sessions_app.core.states import DEADLINES_S, Status

_SESSION = "kernel__session__"
# Of rows of allocations: what `known_end` asks, in its order.
END_COLUMNS = tuple(
    f"{_SESSION}{column}" for column in ("status", "deadline_at", "status_changed_at", "max_runtime_s")
)
HAS_MAX_RUNTIME = Q(**{f"{_SESSION}max_runtime_s__isnull": False})
HAS_KNOWN_END = Q(**{f"{_SESSION}status": Status.TERMINATING.value}) | HAS_MAX_RUNTIME


def known_end(
    status: str, deadline_at: datetime, changed_at: datetime, max_runtime_s: int | None
) -> datetime | None:
    """Return when a session that holds something ends, or None where nobody knows. Too early is safe: it keeps more free."""
    if status == Status.TERMINATING:  # its deadline is put off while its agent does not answer
        return removed_at(changed_at)
    if max_runtime_s is None:
        return None
    return deadline_at if status == Status.RUNNING else changed_at + timedelta(seconds=max_runtime_s)


def removed_at(ended_at: datetime) -> datetime:
    """When the containers of what began to end then are gone, at the latest."""
    return ended_at + timedelta(seconds=DEADLINES_S[Status.TERMINATING])
