"""Missing measurements and silent gateways end no session."""

from datetime import datetime

import pytest

from sessions_app.core.states import Reason
from sessions_app.gateway.activity.recorder import write_report
from sessions_app.idle.facts import find_next_end
from sessions_app.models import Interaction, SessionIdle
from tests.db.sessions_app.idle.test_enforcement import (
    LITTLE,
    MINUTE,
    at,
    began,
    end_of,
    group_has,
    use,
    warnings_of,
    watch,
)
from tests.factories_sessions import Place

__all__ = ("began",)
pytestmark = pytest.mark.django_db(transaction=True)


def test_unmeasured_session_is_not_called_unused(place: Place, began: datetime) -> None:
    group_has(place, max_idle_s=600)
    session = place.run()
    use(session, began, 5, cpu_milli=900)
    watch(began, began + 25 * MINUTE, is_measured=False)
    assert place.fresh(session).is_running
    with at(began + 25 * MINUTE):
        assert "does not say whether it computes" in find_next_end(place.fresh(session)).gap  # type: ignore[union-attr]
    watch(began + 25 * MINUTE, began + 45 * MINUTE)
    assert place.fresh(session).status_reason == Reason.UNUSED


def test_one_gateway_that_is_silent_is_not_hidden_by_another(place: Place, began: datetime) -> None:
    """The one through which its owner works; after a while it has surely ended."""
    group_has(place, max_idle_s=480)
    session = place.run()
    with at(began):
        write_report("other", {session.pk: (0.0, Interaction.TERMINAL)}, 0.0)
    watch(began, began + 17 * MINUTE)
    assert place.fresh(session).is_running
    watch(began + 17 * MINUTE, began + 22 * MINUTE)
    assert place.fresh(session).status_reason == Reason.UNUSED


@pytest.mark.parametrize("cpu_milli", [None, 1])
def test_what_was_not_measured_is_not_too_little(
    place: Place, began: datetime, cpu_milli: int | None
) -> None:
    group_has(place, **LITTLE)
    session = place.run()
    use(session, began, 60 if cpu_milli is None else 8, cpu_milli=cpu_milli)
    watch(began, began + 60 * MINUTE, is_measured=False)
    assert (place.fresh(session).is_running, warnings_of(session)) == (True, [])


def test_session_found_under_utilised_stays_while_unmeasured(place: Place, began: datetime) -> None:
    """Of its long window four fifths were measured even so."""
    group_has(place, min_cpu_percent=5, use_window_s=3600, use_grace_s=600)
    session = place.run()
    use(session, began, 62, cpu_milli=1)
    watch(began, began + 61 * MINUTE)
    assert SessionIdle.objects.get(session=session).low_since is not None
    watch(began + 61 * MINUTE, began + 75 * MINUTE, is_measured=False)
    assert place.fresh(session).is_running
    assert end_of(place, session) is None
