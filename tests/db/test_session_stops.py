"""Stopping with a way back: the moment stands in the row, and whatever dies until then changes nothing."""

from datetime import timedelta

import pytest

from common import clock
from common.errors import Conflict
from common.instants import Step
from scheduler.tick import run_tick
from sessions_app import lifecycle, reconcile
from sessions_app.models import ComputeSession
from sessions_app.states import Reason, Status
from sessions_app.stops import UNDO_S, keep_session, stop_soon, stop_what_is_due
from tests.factories import actor_for, make_user
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def place() -> Place:
    return make_place()


def ask_to_stop(place: Place, session: ComputeSession) -> ComputeSession:
    return stop_soon(actor=actor_for(place.owner), session_id=session.pk)


def test_a_session_is_stopped_when_its_moment_has_come_and_not_before(place: Place) -> None:
    running, waiting = place.run(), place.enqueue()
    for session in (running, waiting):
        ask_to_stop(place, session)
    reconcile.reconcile_sessions()
    assert [place.fresh(session).status for session in (running, waiting)] == [Status.RUNNING, Status.PENDING]

    with clock.frozen_at(clock.now() + timedelta(seconds=UNDO_S)):
        reconcile.reconcile_sessions()
        reconcile.reconcile_sessions()
    assert [place.fresh(session).status for session in (running, waiting)] == [
        Status.TERMINATING,
        Status.CANCELLED,
    ]
    assert place.fresh(running).status_reason == Reason.USER_REQUESTED
    assert place.fresh(running).transitions.last().actor_label == place.owner.email


def test_a_session_that_is_kept_goes_on(place: Place) -> None:
    session = place.run()
    ask_to_stop(place, session)
    kept = keep_session(actor=actor_for(place.owner), session_id=session.pk)
    keep_session(actor=actor_for(place.owner), session_id=session.pk)
    assert kept.stops_at is None
    with clock.frozen_at(clock.now() + timedelta(minutes=1)):
        stop_what_is_due()
    assert place.fresh(session).is_running


def test_asked_twice_the_first_moment_holds_and_an_end_is_not_asked_for_again(place: Place) -> None:
    session = place.run()
    first = ask_to_stop(place, session).stops_at
    with clock.frozen_at(clock.now() + timedelta(seconds=5)):
        assert ask_to_stop(place, session).stops_at == first
    ended = place.end(place.run())
    assert ask_to_stop(place, ended).stops_at is None
    with pytest.raises(Conflict, match="too late"):
        keep_session(actor=actor_for(place.owner), session_id=ended.pk)


def test_who_asked_is_named_even_if_it_was_an_admin_or_their_account_is_gone(place: Place) -> None:
    admin = make_user(admin_of=place.project)
    by_admin, by_nobody = place.run(), place.run()
    for session in (by_admin, by_nobody):
        stop_soon(actor=actor_for(admin), session_id=session.pk)
    ComputeSession.objects.filter(pk=by_nobody.pk).update(stops_by=None)
    with clock.frozen_at(clock.now() + timedelta(seconds=UNDO_S)):
        stop_what_is_due()
    for session, label in ((by_admin, admin.email), (by_nobody, "system")):
        assert place.fresh(session).status_reason == Reason.ADMIN_REQUESTED
        assert place.fresh(session).transitions.last().actor_label == label


def test_a_waiting_session_that_will_be_stopped_is_not_placed_but_one_that_is_kept(place: Place) -> None:
    session = place.enqueue()
    ask_to_stop(place, session)
    run_tick(place.group.pk)
    assert place.fresh(session).status == Status.PENDING
    keep_session(actor=actor_for(place.owner), session_id=session.pk)
    run_tick(place.group.pk)
    assert place.fresh(session).status == Status.SCHEDULED


def test_moments_move_with_the_clock_but_those_of_the_new_time(place: Place) -> None:
    old, new = place.run(), place.run()
    hour = timedelta(hours=1)
    with clock.frozen_at(clock.now() - hour):
        before = ask_to_stop(place, old).stops_at
    after = ask_to_stop(place, new).stops_at
    lifecycle.shift_instants(Step(hour, clock.now(), timedelta(seconds=10)))
    assert before is not None
    assert place.fresh(old).stops_at == before + hour
    assert place.fresh(new).stops_at == after
