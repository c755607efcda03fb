"""Dependencies between sessions: conditions, permissions and outcomes."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from common import clock
from common.actors import SYSTEM
from common.errors import InvalidInput, NotFound
from common.messaging.dispatch import TaskName
from portal.models import Notification
from scheduler.tick import run_tick
from sessions_app.admission.forecast import forecast_session
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import parse_request
from sessions_app.core.states import Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession, SessionDependency
from sessions_app.queue.dependents import settle_all_dependents, settle_dependents
from sessions_app.queue.holds import release_due_starts
from sessions_app.reconciler import loop
from sessions_app.termination.service import begin_termination, terminate_session
from tests.factories import actor_for, make_project, make_user
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db


def after(*sessions: ComputeSession | str, when: str = "success") -> list[dict[str, str]]:
    return [{"session": str(getattr(one, "pk", one)), "when": when} for one in sessions]


def batch(place: Place, **changes: object) -> ComputeSession:
    return place.run(type="batch", command="true", **changes)


def end(place: Place, session: ComputeSession, reason: Reason = Reason.COMMAND_FINISHED) -> ComputeSession:
    """`session`, ended for this reason, as an engine would tell; nobody has looked after those that wait for it."""
    if place.fresh(session).status == Status.PENDING:
        return transitions.transition(
            session.pk, to=Status.CANCELLED, reason=Reason.USER_REQUESTED, actor=SYSTEM
        )
    begin_termination(session.pk, reason=reason, actor=SYSTEM)
    return transitions.finish(session.pk, actor=SYSTEM)


def test_dependent_waits_and_message_says_so(place: Place) -> None:
    first = batch(place, name="prepare")
    second = place.enqueue(name="train", dependencies=after(first))
    run_tick(place.group.pk)

    waiting = place.fresh(second)
    assert (waiting.status, waiting.status_reason, waiting.queue_position) == (
        Status.PENDING,
        "dependency",
        None,
    )
    assert str(waiting.status_message) == "Waits until “prepare” has succeeded."
    assert place.fresh(first).is_awaited

    end(place, first)
    settle_dependents(first.pk)
    settle_dependents(first.pk)
    run_tick(place.group.pk)
    assert place.fresh(second).status == Status.SCHEDULED


def test_the_end_asks_for_those_that_wait_and_only_then(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(transitions, "enqueue_on_commit", lambda name, **given: asked.append((name, given)))
    lonely, first = batch(place), batch(place)
    place.enqueue(dependencies=after(first))
    end(place, lonely)
    assert asked == []
    end(place, first)
    assert asked == [(TaskName.SETTLE_DEPENDENTS, {"session_id": str(first.pk)})]


@pytest.mark.parametrize(
    ("when", "reason", "starts"),
    [
        ("success", Reason.COMMAND_FINISHED, True),
        ("success", Reason.COMMAND_FAILED, False),
        ("success", Reason.USER_REQUESTED, False),
        ("success", Reason.AGENT_LOST, False),
        ("any", Reason.COMMAND_FAILED, True),
        ("any", Reason.AGENT_LOST, True),
        ("failure", Reason.COMMAND_FAILED, True),
        ("failure", Reason.COMMAND_TIMED_OUT, True),
        ("failure", Reason.COMMAND_FINISHED, False),
    ],
)
def test_how_the_other_ends_decides(place: Place, when: str, reason: Reason, starts: bool) -> None:
    first = batch(place, name="prepare")
    second = place.enqueue(dependencies=after(first, when=when))
    end(place, first, reason)
    settle_all_dependents()

    settled = place.fresh(second)
    if starts:
        assert (settled.status, settled.held_for, settled.status_reason) == (Status.PENDING, "", "enqueued")
    else:
        assert (settled.status, settled.status_reason) == (Status.CANCELLED, "dependency_in_vain")
        assert "“prepare” had" in str(settled.status_message)
        assert "did not happen" in str(settled.status_message)


def test_stopped_interactive_session_counts_as_success(place: Place) -> None:
    first = place.run()
    second = place.enqueue(dependencies=after(first))
    place.end(first)
    settle_all_dependents()
    assert place.fresh(second).held_for == ""


def test_several_are_all_waited_for(place: Place) -> None:
    one, two, three = (batch(place, name=f"part-{number}") for number in range(3))
    last = place.enqueue(dependencies=after(one, two, three))
    assert str(place.fresh(last).status_message) == "Waits until “part-0” has succeeded, and for 2 more."

    end(place, one)
    settle_dependents(one.pk)
    assert str(place.fresh(last).status_message) == "Waits until “part-1” has succeeded, and for 1 more."
    end(place, three)
    settle_all_dependents()
    assert place.fresh(last).held_for == "dependency"
    end(place, two)
    settle_all_dependents()
    assert place.fresh(last).held_for == ""


def test_a_chain_that_breaks_ends_all_that_comes_after(
    place: Place, django_capture_on_commit_callbacks
) -> None:  # type: ignore[no-untyped-def]
    first = batch(place)
    second = place.enqueue(dependencies=after(first))
    third = place.enqueue(dependencies=after(second))
    in_vain_too = place.enqueue(dependencies=after(second, when="failure"))
    otherwise = place.enqueue(dependencies=after(second, when="any"))
    end(place, first, Reason.COMMAND_FAILED)
    with django_capture_on_commit_callbacks(execute=True):
        settle_all_dependents()
        settle_all_dependents()

    assert [place.fresh(each).status for each in (second, third, in_vain_too)] == [Status.CANCELLED] * 3
    assert place.fresh(otherwise).held_for == ""
    told = Notification.objects.filter(person=place.owner).values_list("code", flat=True)
    assert set(told) == {"waited_in_vain"}


def test_after_the_others_it_still_waits_for_its_start_time(place: Place) -> None:
    first = batch(place)
    at = clock.now() + timedelta(hours=1)
    second = place.enqueue(dependencies=after(first), start_at=at.isoformat(), pending_timeout_s=60)
    end(place, first)
    settle_all_dependents()
    held = place.fresh(second)
    assert (held.held_for, held.status_reason) == ("start_time", "start_time")
    with clock.frozen_at(at + timedelta(seconds=1)):
        release_due_starts()
        assert place.fresh(second).deadline_at == clock.now() + timedelta(minutes=1)


def test_others_that_have_ended_already_hold_nothing(place: Place) -> None:
    first = end(place, batch(place))
    assert place.place(dependencies=after(first)).status == Status.SCHEDULED


def test_what_can_never_start_is_refused(place: Place) -> None:
    first = end(place, batch(place, name="prepare"), Reason.COMMAND_FAILED)
    with pytest.raises(
        InvalidInput, match="“prepare” has ended already and does not meet the condition"
    ) as refused:
        place.enqueue(dependencies=after(first))
    assert set(refused.value.fields) == {"dependencies.0.session"}


def test_a_name_means_the_one_that_lives_then_the_newest(place: Place) -> None:
    old = end(place, batch(place, name="prepare"))
    newer = end(place, batch(place, name="prepare"))
    assert SessionDependency.objects.get(session=place.enqueue(dependencies=["prepare"])).after == newer
    live = batch(place, name="prepare")
    assert SessionDependency.objects.get(session=place.enqueue(dependencies=["prepare"])).after == live
    assert old.pk != newer.pk


def test_absent_and_hidden_ones_are_refused_alike(place: Place) -> None:
    stranger = make_user(member_of=place.project)
    theirs = place.enqueue(by=stranger, name="theirs")
    said = []
    for named in (str(uuid4()), str(theirs.pk), "theirs", "absent"):
        with pytest.raises(NotFound) as refused:
            place.enqueue(dependencies=[named])
        assert set(refused.value.fields) == {"dependencies.0.session"}
        said.append(refused.value.message.replace(named, "X"))
    assert len(set(said)) == 1
    assert not place.fresh(theirs).is_awaited


def test_project_admin_may_depend_on_sessions_of_others_in_the_project(place: Place) -> None:
    theirs = place.enqueue(name="theirs")
    admin = make_user(domain=place.project.domain, member_of=place.project, role=Role.DOMAIN_ADMIN)
    session = place.enqueue(by=admin, dependencies=after(theirs))
    assert SessionDependency.objects.get(session=session).after == theirs
    with pytest.raises(NotFound):
        place.enqueue(by=admin, dependencies=["theirs"])  # names are of one's own

    other = make_place()
    foreign = other.enqueue()
    with pytest.raises(NotFound):
        place.enqueue(by=admin, dependencies=after(foreign))


def test_there_are_no_circles(place: Place) -> None:
    """Only what is there can be named, and nobody changes it later."""
    with pytest.raises(NotFound):
        place.enqueue(name="train", dependencies=["train"])
    session = place.enqueue()
    with pytest.raises(IntegrityError, match="dependency_on_another"), transaction.atomic():
        SessionDependency.objects.create(session=session, after=session, when="any")


def test_one_session_is_named_once(place: Place) -> None:
    first = place.enqueue(name="prepare")
    with pytest.raises(InvalidInput, match="each session once"):
        place.enqueue(dependencies=[*after(first), "prepare"])


def test_a_forecast_says_what_it_would_wait_for_and_marks_nothing(place: Place) -> None:
    first = batch(place, name="prepare")
    request = parse_request(place.request(dependencies=["prepare"]))
    outlook = forecast_session(actor_for(place.owner), request).outlook
    assert (outlook.reason, str(outlook.sentence)) == ("dependency", "Waits until “prepare” has succeeded.")
    assert not place.fresh(first).is_awaited


def test_a_round_of_reconciling_settles_what_was_lost(place: Place) -> None:
    first = batch(place)
    second = place.enqueue(dependencies=after(first))
    end(place, first)
    loop.reconcile_sessions()
    assert place.fresh(second).held_for == ""


def test_one_that_is_stopped_meanwhile_stays_stopped(place: Place) -> None:
    first = batch(place)
    second = place.enqueue(dependencies=after(first))
    terminate_session(actor=actor_for(place.owner), session_id=second.pk)
    end(place, first)
    settle_all_dependents()
    assert place.fresh(second).status_reason == "user_requested"


@pytest.mark.django_db(transaction=True)
def test_an_end_at_the_same_moment_is_never_missed(place: Place) -> None:
    """Whoever is slower waits for the row of the other session, and finds it as it is then."""
    first = batch(place)
    begin_termination(first.pk, reason=Reason.COMMAND_FINISHED, actor=SYSTEM)
    start = Barrier(2)

    def finish() -> None:
        start.wait(timeout=30)
        transitions.finish(first.pk, actor=SYSTEM)
        connection.close()

    def ask() -> ComputeSession:
        start.wait(timeout=30)
        request = parse_request(place.request(dependencies=after(first)))
        session = enqueue_session(actor=actor_for(place.owner), request=request)
        connection.close()
        return session

    with ThreadPoolExecutor(2) as pool:
        ended, asked = pool.submit(finish), pool.submit(ask)
        ended.result(timeout=60)
        second = asked.result(timeout=60)

    if place.fresh(second).held_for:
        assert place.fresh(first).is_awaited
        settle_dependents(first.pk)
    assert place.fresh(second).held_for == ""


def test_session_of_another_project_is_hidden_from_viewers_of_a_dependent(
    place: Place, browser_of: Callable[[User], Client]
) -> None:
    other = make_project(domain=place.project.domain)
    other.memberships.create(user=place.owner)
    first = batch(place, name="hidden-work", project=other.name)
    second = place.enqueue(name="train", dependencies=after(first))
    admin = make_user(admin_of=place.project)
    places = (
        f"/sessions/{second.pk}/",
        f"/sessions/{second.pk}/?tab=history",
        f"/api/v1/sessions/{second.pk}/",
    )

    seen = [browser_of(admin).get(address) for address in places]
    own = [browser_of(place.owner).get(address) for address in places]
    assert [answer.status_code for answer in (*seen, *own)] == [200] * 6
    assert not any("hidden-work" in answer.content.decode() for answer in seen)
    assert "A session of another project" in seen[0].content.decode()
    assert "hidden-work" in own[0].content.decode()
    assert own[2].json()["dependencies"][0]["name"] == "hidden-work"

    end(place, first, Reason.COMMAND_FAILED)
    settle_dependents(first.pk)
    ended = place.fresh(second)
    assert (ended.status, "hidden-work" in str(ended.status_message)) == (Status.CANCELLED, False)
