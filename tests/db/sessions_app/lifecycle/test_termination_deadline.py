"""A late termination gets another deadline."""

import pytest

from sessions_app.core.states import Status
from sessions_app.lifecycle import transitions
from sessions_app.termination.service import terminate_session
from tests import factories
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db(transaction=True)


def test_late_end_gets_another_deadline_and_says_so() -> None:
    place = make_place()
    session = place.run()
    terminate_session(actor=factories.actor_for(place.owner), session_id=session.pk)
    before = place.fresh(session)

    transitions.postpone_end(session.pk)

    after = place.fresh(session)
    assert (after.status, after.status_message) == (Status.TERMINATING, transitions.LATE_END)
    assert before.deadline_at is not None
    assert after.deadline_at is not None
    assert after.deadline_at > before.deadline_at


def test_session_that_ended_meanwhile_is_not_called_late() -> None:
    place = make_place()
    ended = place.end(place.run())

    transitions.postpone_end(ended.pk)

    after = place.fresh(ended)
    assert (after.status, after.status_message) == (Status.TERMINATED, ended.status_message)
    assert after.deadline_at == ended.deadline_at
