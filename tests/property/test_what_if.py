"""The explanation of one session agrees with the plan, for any snapshot."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine import Planner, Rules, plan
from tests.property.test_engine import ALLOWANCES, NOW, RULES, sessions, snapshots

pytestmark = pytest.mark.walk

ASKED = st.lists(st.integers(1, 4), min_size=1, max_size=3).flatmap(
    lambda numbers: st.tuples(*(sessions(1000 + index) for index, _ in enumerate(numbers)))
)
MAYBE_PAUSED = st.one_of(RULES, st.just(Rules(is_paused=True)))


@given(snapshots(MAYBE_PAUSED), ALLOWANCES, ASKED)
def test_forecast_of_a_new_session_agrees_with_the_plan(snapshot, allowances, asked):
    """By a planner that goes on from one question to the next, as a process does."""
    planner = Planner()
    snapshot = replace(snapshot, quotas=allowances)
    for session in asked:
        asked_too = replace(snapshot, pending=(*snapshot.pending, session))
        decided = plan(asked_too, NOW)
        found = planner.what_if(asked_too, session, NOW)
        deferrals = {each.session_id: each for each in decided.deferrals}
        assert found.deferral == deferrals.get(session.id)
        assert found.placement == next(
            (each for each in decided.placements if each.session_id == session.id), None
        )
        assert (found.placement is None) == (found.deferral is not None)
        assert (found.placements, found.reservations) == (decided.placements, decided.reservations)
        if found.deferral is not None:
            assert tuple(found.ahead) == decided.deferrals[: found.deferral.position - 1]


@given(snapshots())
def test_forecast_of_a_pending_session_agrees_with_the_plan(snapshot):
    decided = plan(snapshot, NOW)
    deferrals = {each.session_id: each for each in decided.deferrals}
    for session in snapshot.pending:
        assert Planner().what_if(snapshot, session, NOW).deferral == deferrals.get(session.id)
