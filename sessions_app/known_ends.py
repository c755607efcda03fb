"""When those that hold something will have ended, as far as that is known."""

from datetime import datetime, timedelta

from django.db.models import Q
from django.db.models.functions import Coalesce

from sessions_app.states import DEADLINES_S, Status

_SESSION = "kernel__session__"
# Of rows of allocations: how long their sessions may run, and what `known_end` asks, in its order.
LASTS_S = Coalesce(f"{_SESSION}timeout_s", f"{_SESSION}lifetime_s")
END_COLUMNS = (f"{_SESSION}status", f"{_SESSION}deadline_at", f"{_SESSION}status_changed_at", "lasts_s")
HAS_KNOWN_END = Q(**{f"{_SESSION}status": Status.TERMINATING.value}) | Q(lasts_s__isnull=False)


def known_end(
    status: str, deadline_at: datetime, changed_at: datetime, lasts_s: int | None
) -> datetime | None:
    """Of a session that holds something; None: nobody knows. Too early is safe: it keeps more free."""
    if status == Status.TERMINATING:  # its deadline is put off while its agent does not answer
        return removed_at(changed_at)
    if lasts_s is None:
        return None
    return deadline_at if status == Status.RUNNING else changed_at + timedelta(seconds=lasts_s)


def removed_at(ended_at: datetime) -> datetime:
    """When the containers of what began to end then are gone, at the latest."""
    return ended_at + timedelta(seconds=DEADLINES_S[Status.TERMINATING])
