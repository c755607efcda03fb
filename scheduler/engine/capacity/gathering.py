"""Choose the agents on which capacity accumulates for a session with an unknown start.

A choice holds until it was expected to suffice, so that accumulated capacity is not given up for
each better guess. If it was wrong, it is made again: sessions that outlived their estimate are
expected to run as long again, so another place may be better. The first choice holds for
`MOST_AT_FIRST` at most, as something may end sooner elsewhere. Each choice holds at least twice as
long as a wrong one, and as long as one whose agents are gone. So the session starts in bounded time
if everything ends in bounded time on one agent that could hold it
(`tests/property/test_capacity_accumulation.py`).
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from scheduler.engine.capacity.backfill import Prospect
from scheduler.engine.snapshot import Gathering, PendingSession

LEAST = timedelta(minutes=1)
MOST_AT_FIRST = timedelta(minutes=15)
BETTER = 2
"""Accumulated capacity is given up only for a place whose expected wait is shorter by this factor.
"""


def choose(
    session: PendingSession, best: Prospect, there: Prospect | None, now: datetime, ids: Sequence[int]
) -> tuple[Prospect, Gathering]:
    """Return where capacity accumulates from now on, when no choice is in force: at `best`, or at
    `there`, the last place; None if that is unusable. `ids`: agent ids by number.
    """
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
    """Return the choices of a pass and the last one of each other pending session, which its next
    choice continues once a quota suffices or its agents are back.
    """
    ids = {each.session_id for each in chosen}
    earlier = [each.gathered for each in waiting if each.gathered is not None and each.id not in ids]
    return (*chosen, *earlier)
