"""Dependencies on whole arrays: conditions, messages and permissions."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from threading import Barrier, Event
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client

from accounts.models import Project, User
from common.actors import SYSTEM
from common.errors import InvalidInput, NotFound
from common.messaging.dispatch import TaskName
from sessions_app.admission.forecast import forecast_session
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import parse_request
from sessions_app.core.states import Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession, SessionArray, SessionDependency
from sessions_app.queue import dependencies
from sessions_app.queue.arrays import terminate_array
from sessions_app.queue.dependents import settle_after_array, settle_all_dependents
from sessions_app.termination.retries import finish_or_retry
from sessions_app.termination.service import begin_termination
from tests.factories import actor_for, make_project, make_user
from tests.factories_sessions import Place
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

GOOD, BAD = Reason.COMMAND_FINISHED, Reason.COMMAND_FAILED


def array_of(place: Place, spec: str = "1-2", **changes: object) -> SessionArray:
    """An array that runs."""
    asked = {"type": "batch", "command": "true", "name": "sweep", "array": spec, **changes}
    array = place.run(**asked).array
    assert array is not None
    return array


def end(array: SessionArray, index: int, reason: Reason = GOOD) -> ComputeSession:
    """The element, ended as an engine would tell; nobody has looked after those that wait."""
    session = array.elements.get(array_index=index)
    begin_termination(session.pk, reason=reason, actor=SYSTEM)
    finish_or_retry(session.pk, actor=SYSTEM)
    session.refresh_from_db()
    return session


def after(place: Place, awaited: SessionArray, when: str = "success", **changes: object) -> ComputeSession:
    return place.enqueue(dependencies=[{"session": str(awaited.pk), "when": when}], **changes)


def settle_by_its_end(array: SessionArray, index: int, reason: Reason) -> None:
    end(array, index, reason)
    settle_after_array(array.pk)


def settle_by_reconciling(array: SessionArray, index: int, reason: Reason) -> None:
    end(array, index, reason)
    settle_all_dependents()


STARTS, WAITS, NEVER = "starts", "waits", "never"


def fate_of(place: Place, session: ComputeSession) -> str:
    fresh = place.fresh(session)
    if fresh.status == Status.CANCELLED:
        assert fresh.status_reason == "dependency_in_vain"
        return NEVER
    return WAITS if fresh.held_for == "dependency" else STARTS


@pytest.mark.parametrize("settle", [settle_by_its_end, settle_by_reconciling])
@pytest.mark.parametrize(
    ("when", "ends", "fates"),
    [
        ("success", (GOOD, GOOD), (WAITS, STARTS)),
        ("success", (GOOD, BAD), (WAITS, NEVER)),
        ("success", (BAD, GOOD), (NEVER, NEVER)),
        ("any", (BAD, GOOD), (WAITS, STARTS)),
        ("any", (GOOD, GOOD), (WAITS, STARTS)),
        ("failure", (BAD, GOOD), (WAITS, STARTS)),
        ("failure", (GOOD, BAD), (WAITS, STARTS)),
        ("failure", (GOOD, GOOD), (WAITS, NEVER)),
    ],
)
def test_how_its_elements_end_decides(
    place: Place,
    settle: Callable[[SessionArray, int, Reason], None],
    when: str,
    ends: tuple[Reason, Reason],
    fates: tuple[str, str],
) -> None:
    array = array_of(place)
    session = after(place, array, when)
    assert fate_of(place, session) == WAITS
    seen = []
    for index, reason in enumerate(ends, start=1):
        settle(array, index, reason)
        seen.append(fate_of(place, session))
    assert tuple(seen) == fates


def test_message_and_rest_name_the_array_waited_for(
    place: Place, browser_of: Callable[[User], Client]
) -> None:
    array = array_of(place, "1-3")
    before = place.run(name="prepare")
    said = {when: str(after(place, array, when).status_message) for when in ("success", "any", "failure")}
    assert said == {
        "success": "Waits until all of “sweep” have succeeded.",
        "any": "Waits until all of “sweep” have ended.",
        "failure": "Waits until all of “sweep” have ended and one has failed.",
    }
    both = place.enqueue(dependencies=["sweep", str(before.pk)])
    assert str(both.status_message) == "Waits until all of “sweep” have succeeded, and for 1 more."

    settle_by_its_end(array, 1, GOOD)
    page = browser_of(place.owner).get(f"/sessions/{both.pk}/").content.decode()
    assert f"array={array.pk}" in page
    assert "once all have succeeded; 1 of 3 have ended" in page.replace("\n", " ")
    told = browser_of(place.owner).get(f"/api/v1/sessions/{both.pk}/").json()["dependencies"]
    assert told == [
        {"session": None, "array": str(array.pk), "name": "sweep", "when": "success", "status": None},
        {"session": str(before.pk), "array": None, "name": "prepare", "when": "success", "status": "RUNNING"},
    ]


def test_session_that_can_never_start_says_why(place: Place) -> None:
    array = array_of(place)
    well, ill = after(place, array), after(place, array, "failure")
    settle_by_its_end(array, 1, GOOD)
    settle_by_its_end(array, 2, BAD)
    sentence = "It was to start after all of “sweep” had succeeded, which did not happen."
    assert str(place.fresh(well).status_message) == sentence
    assert fate_of(place, ill) == STARTS

    array = array_of(place)
    ill = after(place, array, "failure")
    settle_by_its_end(array, 1, GOOD)
    settle_by_its_end(array, 2, GOOD)
    sentence = "It was to start after one of “sweep” had failed, which did not happen."
    assert str(place.fresh(ill).status_message) == sentence


def test_an_element_that_is_tried_again_has_not_failed(place: Place) -> None:
    array = array_of(place, max_retries=1)
    session = after(place, array)
    settle_by_its_end(array, 1, BAD)
    assert array.elements.get(array_index=1).status == Status.PENDING
    assert fate_of(place, session) == WAITS


def test_elements_that_wait_their_turn_are_waited_for(place: Place) -> None:
    array = array_of(place, "1-3%1")
    session = after(place, array)
    settle_by_its_end(array, 1, GOOD)
    assert fate_of(place, session) == WAITS


def test_stopping_the_array_cancels_dependents_on_its_success(place: Place) -> None:
    array = array_of(place, "1-3")
    elements = list(array.elements.values_list("pk", flat=True))
    well, whatever = after(place, array), after(place, array, "any")
    terminate_array(actor=actor_for(place.owner), array_id=array.pk)
    for element in elements:
        if ComputeSession.objects.live().filter(pk=element).exists():
            transitions.finish(element, actor=SYSTEM)
    settle_after_array(array.pk)
    settle_after_array(array.pk)
    assert (fate_of(place, well), fate_of(place, whatever)) == (NEVER, STARTS)


def test_an_array_may_come_after_an_array(place: Place) -> None:
    first = array_of(place)
    second = after(place, first, type="batch", command="true", name="collect", array="1-3%2").array
    assert second is not None
    assert set(second.elements.values_list("held_for", flat=True)) == {"dependency"}
    settle_by_its_end(first, 1, GOOD)
    settle_by_its_end(first, 2, GOOD)
    held = second.elements.order_by("array_index").values_list("held_for", flat=True)
    assert list(held) == ["", "", "array_limit"]


def test_one_that_has_ended_already_holds_nothing_or_is_refused(place: Place) -> None:
    array = array_of(place)
    end(array, 1, GOOD)
    end(array, 2, GOOD)
    assert fate_of(place, after(place, array)) == STARTS
    with pytest.raises(
        InvalidInput, match="“sweep” has ended already and does not meet the condition"
    ) as refused:
        after(place, array, "failure")
    assert set(refused.value.fields) == {"dependencies.0.session"}


def test_one_of_which_an_element_has_failed_is_refused_while_others_run(place: Place) -> None:
    array = array_of(place)
    end(array, 1, BAD)
    with pytest.raises(InvalidInput, match="One of “sweep” has failed already") as refused:
        after(place, array)
    assert set(refused.value.fields) == {"dependencies.0.session"}
    assert fate_of(place, after(place, array, "any")) == WAITS


def test_a_name_means_what_lives_and_then_the_newest(place: Place) -> None:
    def meant() -> object:
        return SessionDependency.objects.get(session=place.enqueue(dependencies=["sweep"])).awaited

    old = array_of(place)
    for index in (1, 2):
        end(old, index)
    assert meant() == old
    session = place.run(name="sweep")
    assert meant() == session
    place.end(session)
    assert meant() == place.fresh(session)
    newer = array_of(place, "3-4")
    assert meant() == newer
    for index in (3, 4):
        end(newer, index)
    assert meant() == newer
    live = place.run(name="sweep")
    assert meant() == live


def test_sessions_and_arrays_are_distinguished_by_id(place: Place) -> None:
    array = array_of(place)
    session = place.run(name="sweep")
    both = place.enqueue(dependencies=[str(array.pk), str(session.pk)])
    assert {row.awaited for row in both.dependencies.all()} == {array, session}
    with pytest.raises(InvalidInput, match="each session once"):
        place.enqueue(dependencies=[str(array.pk), str(array.pk)])


def test_absent_and_hidden_arrays_are_refused_alike(place: Place) -> None:
    stranger = make_user(member_of=place.project)
    theirs = place.enqueue(by=stranger, type="batch", command="true", name="theirs", array="1-2").array
    assert theirs is not None
    said = set()
    for named in (str(uuid4()), str(theirs.pk), "theirs"):
        with pytest.raises(NotFound) as refused:
            place.enqueue(dependencies=[named])
        assert set(refused.value.fields) == {"dependencies.0.session"}
        said.add(refused.value.message.replace(named, "X"))
    assert said == {"There is no session or array “X” on which yours may depend."}
    theirs.refresh_from_db()
    assert not theirs.is_awaited


def test_array_of_another_project_is_hidden_from_viewers_of_a_dependent(
    place: Place, browser_of: Callable[[User], Client]
) -> None:
    other = make_project(domain=place.project.domain)
    other.memberships.create(user=place.owner)
    array = array_of(place, name="hidden-work", project=other.name)
    session = after(place, array)
    end(array, 1)
    admin = browser_of(make_user(admin_of=place.project))
    seen = [
        admin.get(address).content.decode()
        for address in (
            f"/sessions/{session.pk}/",
            f"/sessions/{session.pk}/?tab=history",
            f"/api/v1/sessions/{session.pk}/",
        )
    ]
    assert not any("hidden-work" in text or str(array.pk) in text for text in seen)
    assert "An array of another project" in seen[0]
    assert "of 2 have ended" not in seen[0]
    own = browser_of(place.owner).get(f"/api/v1/sessions/{session.pk}/").json()
    assert own["dependencies"][0]["name"] == "hidden-work"


def test_a_forecast_says_what_it_would_wait_for_and_marks_nothing(place: Place) -> None:
    array = array_of(place)
    request = parse_request(place.request(dependencies=["sweep"]))
    outlook = forecast_session(actor_for(place.owner), request).outlook
    assert (outlook.reason, str(outlook.sentence)) == (
        "dependency",
        "Waits until all of “sweep” have succeeded.",
    )
    array.refresh_from_db()
    assert not array.is_awaited


def test_a_row_names_a_session_or_an_array_and_each_once(place: Place) -> None:
    array, session = array_of(place), place.enqueue()
    other = place.enqueue()
    for wrong in ({}, {"after": other, "after_array": array}):
        with pytest.raises(IntegrityError, match="dependency_on_one"), transaction.atomic():
            SessionDependency.objects.create(session=session, when="any", **wrong)
    SessionDependency.objects.create(session=session, after_array=array, when="any")
    with pytest.raises(IntegrityError, match="dependency_on_array_once"), transaction.atomic():
        SessionDependency.objects.create(session=session, after_array=array, when="any")


def test_an_array_that_lives_is_meant_though_a_newer_one_has_ended(place: Place) -> None:
    old, newer = array_of(place, "1-2"), array_of(place, "3-4")
    for index in (3, 4):
        end(newer, index)
    assert SessionDependency.objects.get(session=place.enqueue(dependencies=["sweep"])).awaited == old


@pytest.mark.parametrize("spec", ["1-12", "1-12%3"])
def test_elements_that_come_after_others_are_let_in_by_index(
    place: Place, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    monkeypatch.setattr("sessions_app.queue.holds.BATCH_SIZE", 5)
    first = array_of(place)
    second = after(place, first, type="batch", command="true", name="collect", array=spec).array
    assert second is not None
    end(first, 1)
    end(first, 2)
    settle_after_array(first.pk)
    let_in = second.elements.filter(held_for="").order_by("eligible_at")
    expected = list(range(1, 4 if "%" in spec else 13))
    assert list(let_in.values_list("array_index", flat=True)) == expected


def asked_by(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Tasks that are sent once what `act` does has committed."""
    asked: list[object] = []
    for module in (transitions, dependencies):
        monkeypatch.setattr(module, "enqueue_on_commit", lambda name, **given: asked.append((name, given)))
    act()
    return asked


def test_each_end_settles_dependents_of_a_named_array(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Callable[..., AbstractContextManager[object]],
) -> None:
    """Whoever names it asks, too: an end that was about to commit has not seen the mark."""
    array = array_of(place, "1-3")

    def finish(index: int) -> None:
        with django_capture_on_commit_callbacks(execute=True):
            end(array, index)

    looked_at = (TaskName.LOOK_AT_ARRAY, {"array_id": str(array.pk)})
    assert looked_at not in asked_by(lambda: finish(1), monkeypatch)
    assert looked_at in asked_by(lambda: after(place, array), monkeypatch)
    assert looked_at in asked_by(lambda: finish(2), monkeypatch)


@pytest.mark.django_db(transaction=True)
def test_the_last_end_at_the_same_moment_is_never_missed(place: Place) -> None:
    """Whoever names the array has it looked at once that has committed: an end just before then has not seen the mark."""
    array = array_of(place)
    end(array, 1)
    last = array.elements.get(array_index=2)
    begin_termination(last.pk, reason=GOOD, actor=SYSTEM)
    start = Barrier(2)

    def finish() -> None:
        start.wait(timeout=30)
        transitions.finish(last.pk, actor=SYSTEM)
        connection.close()

    def ask() -> ComputeSession:
        start.wait(timeout=30)
        request = parse_request(place.request(dependencies=["sweep"]))
        session = enqueue_session(actor=actor_for(place.owner), request=request)
        connection.close()
        return session

    with ThreadPoolExecutor(2) as pool:
        ended, asked = pool.submit(finish), pool.submit(ask)
        ended.result(timeout=60)
        session = asked.result(timeout=60)

    # What whoever named it has asked for.
    settle_after_array(array.pk)
    assert fate_of(place, session) == STARTS


@pytest.mark.django_db(transaction=True)
def test_cancelled_dependents_lock_use_rows_in_one_order(place: Place) -> None:
    """Domain by domain, as each statement that ends sessions of several does; whichever of them waited longer."""
    other = make_project()
    low, high = sorted((place.project, other), key=lambda project: project.domain_id)
    owners = {place.project: place.owner, other: make_user(member_of=other)}

    def ask(project: Project, name: str, **changes: object) -> ComputeSession:
        return place.enqueue(by=owners[project], project=project.name, name=name, **changes)

    def cancel(session: ComputeSession) -> None:
        transitions.transition(session.pk, to=Status.CANCELLED, reason=Reason.USER_REQUESTED, actor=SYSTEM)

    awaited = {project: ask(project, "before") for project in (low, high)}
    waiting = [ask(project, "after", dependencies=["before"]) for project in (high, low)]
    third = {project: ask(project, "third") for project in (low, high)}
    for session in awaited.values():
        cancel(session)
    holds_low, settling = Event(), Event()

    def end_low_then_high() -> None:
        with transaction.atomic():
            cancel(third[low])
            holds_low.set()
            assert settling.wait(timeout=30)
            wait_until(somebody_waits_for_a_lock, deadline_s=30)
            cancel(third[high])
        connection.close()

    def settle() -> None:
        assert holds_low.wait(timeout=30)
        settling.set()
        settle_all_dependents()
        connection.close()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(end_low_then_high), pool.submit(settle)]:
            done.result(timeout=90)
    assert [fate_of(place, each) for each in waiting] == [NEVER, NEVER]


def somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks AS lock JOIN pg_stat_activity USING (pid)"
            " WHERE NOT lock.granted AND datname = current_database()"
        )
        [count] = cursor.fetchone()
    return bool(count)
