"""Choice of the agents on which room is gathered for a session of which nobody knows when it will find some.

A choice holds until it was expected to be right, so that what has gathered is not given away for each better guess. When it was wrong it is
made again: what has outlived its estimate is expected to go on for as long as it has run, so another place comes to be better. The first
choice holds for `MOST_AT_FIRST` at most, however far the estimate is: meanwhile something may end sooner elsewhere. Each choice holds at least
twice as long as one that was wrong, and as long as one whose place has gone. So the session starts in bounded time if everything ends in
bounded time on one machine that could hold it (`tests/property/test_gathering_laws.py`).
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from scheduler.engine.capacity.backfill import Prospect
from scheduler.engine.snapshot import Gathering, PendingSession

LEAST = timedelta(minutes=1)
MOST_AT_FIRST = timedelta(minutes=15)
BETTER = 2
"""So many times sooner it has to be expected elsewhere, for what has gathered to be given away."""


def choose(
    session: PendingSession, best: Prospect, there: Prospect | None, now: datetime, ids: Sequence[int]
) -> tuple[Prospect, Gathering]:
    """Return where to gather from now on, as nothing is chosen that holds: at the `best` place, or `there`, where it was until now; None if
    that is no place for it any more. `ids`: of agents by ordinal."""
    was, least = session.gathered, LEAST
    if was is not None:
        least = was.until - was.since
        if there is not None:
            least *= 2
            is_better = (best.expected - now) * BETTER < there.expected - now
            if there.is_late == best.is_late and not is_better:
                best = there
    agent_ids = tuple([ids[ordinal] for ordinal in best.ordinals])
    holds_for = max(min(best.expected - now, MOST_AT_FIRST), least)
    return best, Gathering(session.id, agent_ids, now, now + holds_for)


def with_earlier(chosen: Sequence[Gathering], waiting: Iterable[PendingSession]) -> tuple[Gathering, ...]:
    """Return the choices of a pass, and the last one of each other session that waits: its next choice goes on from that, once a limit
    leaves room for it or its agents are back."""
    ids = {each.session_id for each in chosen}
    earlier = [each.gathered for each in waiting if each.gathered is not None and each.id not in ids]
    return (*chosen, *earlier)
