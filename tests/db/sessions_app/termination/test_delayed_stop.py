"""Scheduled stops can be cancelled and survive restarts."""

from datetime import timedelta

import pytest

from common import clock
from common.actors import SYSTEM
from common.clock import ClockJump
from common.errors import Conflict
from scheduler.tick import run_tick
from sessions_app.core.states import Reason, Status
from sessions_app.launch.launcher import launch_session
from sessions_app.launch.terminator import end_session
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession
from sessions_app.queue.arrays import cancel_array_stop, schedule_array_stop
from sessions_app.reconciler import loop
from sessions_app.termination.delayed_stop import UNDO_S, cancel_stop, run_due_stops, schedule_stop
from sessions_app.termination.service import begin_termination
from tests.factories import actor_for, make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db(transaction=True)


def ask_to_stop(place: Place, session: ComputeSession) -> ComputeSession:
    return schedule_stop(actor=actor_for(place.owner), session_id=session.pk)


def test_a_session_is_stopped_when_its_moment_has_come_and_not_before(place: Place) -> None:
    running, waiting = place.run(), place.enqueue()
    for session in (running, waiting):
        ask_to_stop(place, session)
    loop.reconcile_sessions()
    assert [place.fresh(session).status for session in (running, waiting)] == [Status.RUNNING, Status.PENDING]

    with clock.frozen_at(clock.now() + timedelta(seconds=UNDO_S)):
        loop.reconcile_sessions()
        loop.reconcile_sessions()
    assert [place.fresh(session).status for session in (running, waiting)] == [
        Status.TERMINATING,
        Status.CANCELLED,
    ]
    assert place.fresh(running).status_reason == Reason.USER_REQUESTED
    assert place.fresh(running).transitions.last().actor_label == place.owner.email


def test_a_session_that_is_kept_goes_on(place: Place) -> None:
    session = place.run()
    ask_to_stop(place, session)
    kept = cancel_stop(actor=actor_for(place.owner), session_id=session.pk)
    cancel_stop(actor=actor_for(place.owner), session_id=session.pk)
    assert kept.stops_at is None
    with clock.frozen_at(clock.now() + timedelta(minutes=1)):
        run_due_stops()
    assert place.fresh(session).is_running


def test_asked_twice_the_first_moment_holds_and_an_end_is_not_asked_for_again(place: Place) -> None:
    session = place.run()
    first = ask_to_stop(place, session).stops_at
    with clock.frozen_at(clock.now() + timedelta(seconds=5)):
        assert ask_to_stop(place, session).stops_at == first
    ended = place.end(place.run())
    assert ask_to_stop(place, ended).stops_at is None
    with pytest.raises(Conflict, match="too late"):
        cancel_stop(actor=actor_for(place.owner), session_id=ended.pk)


def test_requester_of_a_stop_is_named_even_if_deleted(place: Place) -> None:
    admin = make_user(admin_of=place.project)
    by_admin, by_nobody = place.run(), place.run()
    for session in (by_admin, by_nobody):
        schedule_stop(actor=actor_for(admin), session_id=session.pk)
    ComputeSession.objects.filter(pk=by_nobody.pk).update(stops_by=None)
    with clock.frozen_at(clock.now() + timedelta(seconds=UNDO_S)):
        run_due_stops()
    for session, label in ((by_admin, admin.email), (by_nobody, "system")):
        assert place.fresh(session).status_reason == Reason.ADMIN_REQUESTED
        assert place.fresh(session).transitions.last().actor_label == label


def test_a_waiting_session_that_will_be_stopped_is_not_placed_but_one_that_is_kept(place: Place) -> None:
    session = place.enqueue()
    ask_to_stop(place, session)
    run_tick(place.group.pk)
    assert place.fresh(session).status == Status.PENDING
    cancel_stop(actor=actor_for(place.owner), session_id=session.pk)
    run_tick(place.group.pk)
    assert place.fresh(session).status == Status.SCHEDULED


def test_moments_move_with_the_clock_but_those_of_the_new_time(place: Place) -> None:
    old, new = place.run(), place.run()
    hour = timedelta(hours=1)
    with clock.frozen_at(clock.now() - hour):
        before = ask_to_stop(place, old).stops_at
    after = ask_to_stop(place, new).stops_at
    transitions.shift_timestamps(ClockJump(hour, clock.now(), timedelta(seconds=10)))
    assert before is not None
    assert place.fresh(old).stops_at == before + hour
    assert place.fresh(new).stops_at == after


# What fails and would be tried again


def about_to_be_tried_again(place: Place) -> ComputeSession:
    session = place.run(type="batch", command="python train.py", max_retries=3)
    begin_termination(session.pk, reason=Reason.COMMAND_FAILED, actor=SYSTEM, exit_code=1)
    return place.fresh(session)


@pytest.mark.parametrize("ends", ["before its moment", "after it"])
def test_what_is_about_to_be_tried_again_is_stopped_as_well(place: Place, ends: str) -> None:
    session = about_to_be_tried_again(place)
    assert ask_to_stop(place, session).stops_at
    if ends == "before its moment":
        end_session(session.pk)
    with clock.frozen_at(clock.now() + timedelta(seconds=UNDO_S)):
        run_due_stops()
        run_due_stops()
        if ends == "after it":
            end_session(session.pk)
    assert place.fresh(session).ended_at
    with pytest.raises(Conflict):
        cancel_stop(actor=actor_for(place.owner), session_id=session.pk)


def test_what_is_about_to_be_tried_again_can_be_kept(place: Place) -> None:
    session = about_to_be_tried_again(place)
    ask_to_stop(place, session)
    assert cancel_stop(actor=actor_for(place.owner), session_id=session.pk).stops_at is None
    end_session(session.pk)
    with clock.frozen_at(clock.now() + timedelta(minutes=1)):
        run_due_stops()
    assert place.fresh(session).status == Status.PENDING


def test_a_failure_after_the_stop_was_asked_for_can_be_taken_back_too(place: Place) -> None:
    session = place.run(type="batch", command="python train.py", max_retries=3)
    ask_to_stop(place, session)
    begin_termination(session.pk, reason=Reason.COMMAND_FAILED, actor=SYSTEM, exit_code=1)
    cancel_stop(actor=actor_for(place.owner), session_id=session.pk)
    end_session(session.pk)
    assert (place.fresh(session).status, place.fresh(session).stops_at) == (Status.PENDING, None)


def test_stopping_all_of_an_array_stops_those_that_are_about_to_be_tried_again(place: Place) -> None:
    owner = actor_for(place.owner)
    first = place.enqueue(type="batch", command="python train.py", array="1-2", max_retries=3)
    run_tick(place.group.pk)
    array_id = place.fresh(first).array_id
    failing, waiting = ComputeSession.objects.filter(array=array_id).order_by("array_index")
    for each in (failing, waiting):
        launch_session(each.pk)
    begin_termination(failing.pk, reason=Reason.COMMAND_FAILED, actor=SYSTEM, exit_code=1)
    assert schedule_array_stop(actor=owner, array_id=array_id) == 2
    assert cancel_array_stop(actor=owner, array_id=array_id) == 2
    assert schedule_array_stop(actor=owner, array_id=array_id) == 2
    with clock.frozen_at(clock.now() + timedelta(seconds=UNDO_S)):
        run_due_stops()
        for each in (failing, waiting):
            end_session(each.pk)
    assert all(place.fresh(each).ended_at for each in (failing, waiting))
