"""Dependents treat each way to end as the table of the user guide says."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models import QuerySet

from accounts.core.roles import Role
from common import clock
from common.actors import SYSTEM
from sessions_app.core.states import Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession, SessionArray, SessionType
from sessions_app.queue.dependents import settle_all_dependents, settle_dependents
from sessions_app.queue.endings import Ending, ended_as, ending_of
from sessions_app.reconciler.loop import enforce_deadlines
from sessions_app.termination.retries import finish_or_retry
from sessions_app.termination.service import begin_termination, terminate_session
from tests.factories import actor_for, make_user
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db

SUCCESS, FAILURE, SKIPPED = Ending
End = Callable[[Place, ComputeSession], None]


def cancel(place: Place, session: ComputeSession) -> None:
    terminate_session(actor=actor_for(place.owner), session_id=session.pk)


def cancel_by_admin(_place: Place, session: ComputeSession) -> None:
    terminate_session(actor=actor_for(make_user(role=Role.SUPERADMIN)), session_id=session.pk)


def outwait(_place: Place, session: ComputeSession) -> None:
    ComputeSession.objects.filter(pk=session.pk).update(pending_timeout_s=1, deadline_at=clock.now())
    enforce_deadlines(clock.now() + timedelta(seconds=1))


def cancelled_for(reason: Reason) -> End:
    def end(_place: Place, session: ComputeSession) -> None:
        transitions.transition(session.pk, to=Status.CANCELLED, reason=reason, actor=SYSTEM)

    return end


def ended_by(reason: Reason) -> End:
    def end(_place: Place, session: ComputeSession) -> None:
        begin_termination(session.pk, reason=reason, actor=SYSTEM)
        finish_or_retry(session.pk, actor=SYSTEM)

    return end


WAITING = [
    (cancel, SKIPPED),
    (cancel_by_admin, SKIPPED),
    (cancelled_for(Reason.DEPENDENCY_IN_VAIN), SKIPPED),
    (outwait, FAILURE),
    (cancelled_for(Reason.GROUP_CLOSED), FAILURE),
    (cancelled_for(Reason.OWNER_LEFT), FAILURE),
]
LAUNCHING = [
    (ended_by(Reason.USER_REQUESTED), SKIPPED),
    (ended_by(Reason.ADMIN_REQUESTED), SKIPPED),
    (ended_by(Reason.IMAGE_PULL_FAILED), FAILURE),
    (ended_by(Reason.ENGINE_REFUSED), FAILURE),
    (ended_by(Reason.AGENT_LOST), FAILURE),
    (ended_by(Reason.DEADLINE_PASSED), FAILURE),
]
# Of those that ran: of a batch session, and of others.
RAN = [
    (Reason.COMMAND_FINISHED, SUCCESS, SUCCESS),
    (Reason.COMMAND_FAILED, FAILURE, FAILURE),
    (Reason.COMMAND_TIMED_OUT, FAILURE, SUCCESS),
    (Reason.OUT_OF_MEMORY, FAILURE, FAILURE),
    (Reason.CONTAINER_EXITED, FAILURE, SUCCESS),
    (Reason.USER_REQUESTED, FAILURE, SUCCESS),
    (Reason.ADMIN_REQUESTED, FAILURE, SUCCESS),
    (Reason.UNUSED, FAILURE, SUCCESS),
    (Reason.UNDERUSED, FAILURE, SUCCESS),
    (Reason.LIFETIME_OVER, FAILURE, SUCCESS),
    (Reason.PREEMPTED, FAILURE, FAILURE),
    (Reason.CONTAINER_LOST, FAILURE, FAILURE),
    (Reason.AGENT_LOST, FAILURE, FAILURE),
]
TABLE = [
    *(("enqueue", type_, end, ending) for end, ending in WAITING for type_ in SessionType.values),
    *(("place", type_, end, ending) for end, ending in LAUNCHING for type_ in SessionType.values),
    *(("run", SessionType.BATCH.value, ended_by(reason), ending) for reason, ending, _ in RAN),
    *(("run", SessionType.INTERACTIVE.value, ended_by(reason), ending) for reason, _, ending in RAN),
]
STARTS = {SUCCESS: {"success", "any"}, FAILURE: {"failure", "any"}, SKIPPED: {"any"}}


@pytest.mark.parametrize(("stage", "type_", "end", "ending"), TABLE)
def test_each_end_meets_the_conditions_of_the_table(stage: str, type_: str, end: End, ending: Ending) -> None:
    place = make_place()
    command = {"command": "true"} if type_ == SessionType.BATCH else {}
    first: ComputeSession = getattr(place, stage)(type=type_, name="prepare", **command)
    later = {
        when: place.enqueue(dependencies=[{"session": str(first.pk), "when": when}])
        for when in ("success", "failure", "any")
    }
    end(place, first)
    assert ending_of(place.fresh(first)) is ending
    rows: QuerySet[ComputeSession] = ComputeSession.objects.filter(pk=first.pk)
    assert [each for each in Ending if rows.filter(ended_as(each)).exists()] == [ending]

    settle_dependents(first.pk)
    settle_all_dependents()
    started = {when for when, session in later.items() if place.fresh(session).held_for == ""}
    in_vain = {
        when
        for when, session in later.items()
        if place.fresh(session).status_reason == Reason.DEPENDENCY_IN_VAIN
    }
    assert started - in_vain == STARTS[ending]
    assert in_vain == later.keys() - STARTS[ending]


def test_dependent_on_failure_of_a_session_that_never_ran_says_so() -> None:
    """a succeeds; b, after the failure of a, is cancelled in vain; c, after the failure of b, never starts either."""
    place = make_place()
    a = place.run(type="batch", command="true", name="a")
    b = place.enqueue(name="b", dependencies=[{"session": "a", "when": "failure"}])
    c = place.enqueue(name="c", dependencies=[{"session": "b", "when": "failure"}])
    tidy = place.enqueue(name="tidy", dependencies=[{"session": "b", "when": "any"}])
    ended_by(Reason.COMMAND_FINISHED)(place, a)
    settle_dependents(a.pk)
    settle_dependents(b.pk)
    assert str(place.fresh(b).status_message) == (
        "It was to start after “a” had failed, which did not happen."
    )
    assert (place.fresh(c).status, place.fresh(c).status_reason) == (Status.CANCELLED, "dependency_in_vain")
    assert str(place.fresh(c).status_message) == "It was to start after “b” had failed, but “b” never ran."
    assert place.fresh(tidy).held_for == ""


@pytest.mark.parametrize("reason", [Reason.COMMAND_FAILED, Reason.AGENT_LOST, Reason.PREEMPTED])
def test_one_that_ran_and_is_cancelled_while_it_waits_for_its_next_attempt_has_failed(reason: Reason) -> None:
    place = make_place()
    session = place.run(type="batch", command="true", max_retries=1, requeues=True)
    on_failure = place.enqueue(dependencies=[{"session": str(session.pk), "when": "failure"}])
    ended_by(reason)(place, session)
    assert place.fresh(session).status == Status.PENDING
    assert ending_of(place.fresh(session)) is None
    cancel(place, session)
    assert ending_of(place.fresh(session)) is FAILURE
    settle_dependents(session.pk)
    assert (place.fresh(on_failure).status, place.fresh(on_failure).held_for) == (Status.PENDING, "")


@pytest.mark.parametrize(
    ("when", "of_the_last", "starts"),
    [
        ("success", Reason.COMMAND_FINISHED, False),
        ("failure", Reason.COMMAND_FINISHED, False),
        ("failure", Reason.COMMAND_FAILED, True),
        ("any", Reason.COMMAND_FINISHED, True),
    ],
)
def test_an_element_that_never_ran_is_no_failure_of_its_array(
    when: str, of_the_last: Reason, starts: bool
) -> None:
    place = make_place()
    array = place.run(type="batch", command="true", name="sweep", array="1-2%1").array
    assert isinstance(array, SessionArray)
    running, waiting = array.elements.order_by("array_index")
    later = place.enqueue(dependencies=[{"session": "sweep", "when": when}])
    cancel(place, waiting)
    ended_by(of_the_last)(place, running)
    settle_all_dependents()
    assert (place.fresh(later).status, place.fresh(later).held_for == "") == (
        (Status.PENDING, True) if starts else (Status.CANCELLED, False)
    )
