"""Choose the agents on which capacity accumulates for a session with an unknown start.

A choice holds until it was expected to suffice, so that accumulated capacity is not given up for
each better guess. If it was wrong, it is made again: sessions that outlived their estimate are
expected to run as long again, so another place may be better. The first choice holds for
`MAX_FIRST_DURATION` at most, as something may end sooner elsewhere. Each choice holds at least twice as
long as a wrong one, and as long as one whose agents are gone. So the session starts in bounded time
if everything ends in bounded time on one agent that could hold it
(`tests/property/test_capacity_accumulation.py`).
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from scheduler.engine.capacity.backfill import EarliestStart
from scheduler.engine.snapshot import Accumulation, PendingSession

MIN_DURATION = timedelta(minutes=1)
MAX_FIRST_DURATION = timedelta(minutes=15)
BETTER_FACTOR = 2
"""Accumulated capacity is given up only for a place whose expected wait is shorter by this factor.
"""


def choose_accumulation(
    session: PendingSession,
    best: EarliestStart,
    there: EarliestStart | None,
    now: datetime,
    ids: Sequence[int],
) -> tuple[EarliestStart, Accumulation]:
    """Return where capacity accumulates from now on, when no choice is in force: at `best`, or at
    `there`, the last place; None if that is unusable. `ids`: agent ids by number.
    """
    was, least = session.accumulation, MIN_DURATION
    if was is not None:
        least = was.until - was.since
        if there is not None:
            least *= 2
            is_better = (best.expected - now) * BETTER_FACTOR < there.expected - now
            if there.is_late == best.is_late and not is_better:
                best = there
    agent_ids = tuple([ids[agent_number] for agent_number in best.agent_numbers])
    holds_for = max(min(best.expected - now, MAX_FIRST_DURATION), least)
    return best, Accumulation(session.id, agent_ids, now, now + holds_for)


def with_earlier_choices(
    chosen: Sequence[Accumulation], waiting: Iterable[PendingSession]
) -> tuple[Accumulation, ...]:
    """Return the choices of a pass and the last one of each other pending session, which its next
    choice continues once a quota suffices or its agents are back.
    """
    ids = {each.session_id for each in chosen}
    earlier = [each.accumulation for each in waiting if each.accumulation is not None and each.id not in ids]
    return (*chosen, *earlier)
