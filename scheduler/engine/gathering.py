"""Where room is gathered for a session of which nobody knows when it will find some.

A choice holds until it was expected to be right, so that what has gathered is not given away for each better guess. When it was wrong it is
made again: what has outlived its estimate is expected to go on for as long as it has run, so another place comes to be better. Each choice
holds at least twice as long as one that was wrong. So the session starts in bounded time if everything ends in bounded time on one machine
that could hold it (`tests/property/test_gathering_laws.py`).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from scheduler.engine.model import Gathering, PendingSession
from scheduler.engine.reservations import Prospect

LEAST = timedelta(minutes=1)
BETTER = 2
"""So many times sooner it has to be expected elsewhere, for what has gathered to be given away."""


def choose(
    session: PendingSession, best: Prospect, there: Prospect | None, now: datetime, ids: Sequence[int]
) -> tuple[Prospect, Gathering]:
    """Return where to gather from now on, as nothing is chosen that holds: at the `best` place, or `there`, where it was until now; None if
    that is no place for it any more. `ids`: of agents by ordinal."""
    was, longer = session.gathered, LEAST
    if was is not None and there is not None:
        longer = (was.until - was.since) * 2
        if (best.expected - now) * BETTER >= there.expected - now:
            best = there
    agent_ids = tuple([ids[ordinal] for ordinal in best.ordinals])
    return best, Gathering(session.id, agent_ids, now, now + max(best.expected - now, longer))
