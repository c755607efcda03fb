"""The page of a session with two limits shows the nearer end, whatever warnings were sent."""

from datetime import datetime

import pytest

from sessions_app.idle.facts import find_next_end
from sessions_app.models import ComputeSession
from tests.db.sessions_app.idle.test_enforcement import (
    MINUTE,
    at,
    began,
    group_has,
    warnings_of,
    watch,
)
from tests.factories_sessions import Place

__all__ = ("began",)
pytestmark = pytest.mark.django_db(transaction=True)


def test_warning_of_the_later_end_keeps_the_nearer_end_shown(place: Place, began: datetime) -> None:
    group_has(place, max_idle_s=3600)
    session = place.run()
    ComputeSession.objects.filter(pk=session.pk).update(lifetime_s=67 * 60, deadline_at=began + 67 * MINUTE)
    seen, since = [], 0
    for minute in (56, 58):
        watch(began + since * MINUTE, began + minute * MINUTE)
        since = minute
        with at(began + minute * MINUTE):
            outlook = find_next_end(place.fresh(session))
        assert outlook is not None
        seen.append((outlook.cause, outlook.is_near, outlook.ends_at))
    assert warnings_of(session)[-1] == ("lifetime", 600, True)
    assert seen[0] == seen[1]
    assert seen[0][:2] == ("interaction", True)
