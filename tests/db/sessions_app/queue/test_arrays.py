"""Arrays of batch sessions: created at once, started up to a maximum, ended at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction

from accounts.core.roles import Role
from agents.resource_groups.service import update_resource_group
from common import clock
from common.actors import SYSTEM
from common.errors import Conflict, LimitExceeded, NotFound, PermissionDenied
from common.messaging.dispatch import TaskName
from common.models import AuditEntry
from scheduler.tick import run_tick
from sessions_app.admission.forecast import forecast_session
from sessions_app.admission.names import suggest_name
from sessions_app.core.container_spec import build_environment
from sessions_app.core.request import parse_request
from sessions_app.core.states import Reason, Status
from sessions_app.launch.launcher import build_kernel_plan, launch_session
from sessions_app.launch.terminator import end_session
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession, SessionArray, SessionTransition
from sessions_app.queue.array_release import release_all_arrays, release_elements
from sessions_app.queue.arrays import Progress, progress_by_array, terminate_array
from sessions_app.queue.closed_groups import update_group_holds
from sessions_app.queue.dependents import settle_dependents
from sessions_app.queue.holds import release_due_starts
from sessions_app.reconciler import loop
from sessions_app.termination.delayed_stop import schedule_stop
from sessions_app.termination.retries import finish_or_retry
from sessions_app.termination.service import begin_termination, terminate_session
from tests.factories import actor_for, make_user
from tests.factories_limits import limit, use_of
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db


def ask(place: Place, spec: str, **changes: object) -> SessionArray:
    first = place.enqueue(**{"type": "batch", "command": "true", "name": "sweep", "array": spec, **changes})
    assert first.array is not None
    return first.array


def elements(array: SessionArray) -> list[ComputeSession]:
    return list(array.elements.order_by("array_index"))


def let_in(array: SessionArray) -> list[int]:
    """Indices of those that live and that nothing holds."""
    live = array.elements.live().filter(held_for="")
    return list(live.order_by("array_index").values_list("array_index", flat=True))


def end(place: Place, array: SessionArray, index: int, reason: Reason = Reason.COMMAND_FINISHED) -> None:
    """The element ends as an engine would tell; nobody has looked after the next."""
    session = array.elements.get(array_index=index)
    if session.status == Status.PENDING:
        run_tick(place.group.pk)
        session.refresh_from_db()
    begin_termination(session.pk, reason=reason, actor=SYSTEM)
    finish_or_retry(session.pk, actor=SYSTEM)


def test_each_element_has_its_name_and_index_and_the_array_what_was_asked(place: Place) -> None:
    array = ask(place, "1-3,10%2")

    assert (array.name, array.spec, array.count, array.most_at_once) == ("sweep", "1-3,10%2", 4, 2)
    assert (array.owner, array.project, array.domain_id) == (
        place.owner,
        place.project,
        place.project.domain_id,
    )
    found = elements(array)
    assert [(each.array_index, each.name) for each in found] == [
        (1, "sweep-1"),
        (2, "sweep-2"),
        (3, "sweep-3"),
        (10, "sweep-10"),
    ]
    assert [each.held_for for each in found] == ["", "", "array_limit", "array_limit"]
    assert [each.status_reason for each in found] == ["enqueued", "enqueued", "array_limit", "array_limit"]
    told = SessionTransition.objects.filter(session__in=found).order_by("session__array_index")
    assert [each.reason for each in told] == [each.status_reason for each in found]


def test_a_name_that_ends_like_an_index_stays(place: Place) -> None:
    assert ask(place, "1-2", name="run-1").name == "run-1"


def test_without_a_limit_all_are_let_in_and_placed_by_one_tick(place: Place) -> None:
    array = ask(place, "1-5")
    assert let_in(array) == [1, 2, 3, 4, 5]
    assert len(run_tick(place.group.pk)) == 5


def test_as_many_are_placed_as_may_run_at_once(place: Place) -> None:
    array = ask(place, "0-9%3")
    run_tick(place.group.pk)
    scheduled = array.elements.filter(status=Status.SCHEDULED)
    assert set(scheduled.values_list("array_index", flat=True)) == {0, 1, 2}


def test_an_end_lets_in_the_next_by_index(place: Place) -> None:
    array = ask(place, "1-5%2")
    end(place, array, 2)
    assert release_elements(array.pk) == 1
    assert release_elements(array.pk) == 0  # it may be asked twice
    assert let_in(array) == [1, 3]
    third = array.elements.get(array_index=3)
    assert (third.status_reason, str(third.status_message)) == ("enqueued", "Waiting for a machine.")
    assert third.eligible_at is not None
    assert third.eligible_at > third.created_at


def test_those_let_in_together_queue_in_their_order(place: Place) -> None:
    array = ask(place, "1-9%3")
    for index in (1, 2, 3):
        end(place, array, index)
    assert release_elements(array.pk) == 3
    queued = array.elements.live().filter(held_for="").order_by("eligible_at")
    assert [each.array_index for each in queued] == [4, 5, 6]


def test_the_end_asks_for_the_next_and_only_where_there_is_a_limit(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Callable[..., AbstractContextManager[object]],
) -> None:
    limited, free = ask(place, "1-2%1"), ask(place, "1-2", name="free")
    run_tick(place.group.pk)
    asked: list[object] = []
    monkeypatch.setattr(transitions, "enqueue_on_commit", lambda name, **given: asked.append((name, given)))
    for array in (limited, free):
        session = array.elements.get(array_index=1)
        transitions.transition(
            session.pk, to=Status.TERMINATING, reason=Reason.COMMAND_FINISHED, actor=SYSTEM
        )
        with django_capture_on_commit_callbacks(execute=True):
            transitions.finish(session.pk, actor=SYSTEM)
    assert asked == [(TaskName.LOOK_AT_ARRAY, {"array_id": str(limited.pk)})]


def test_ends_of_many_ask_once_for_the_next(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Callable[..., AbstractContextManager[object]],
) -> None:
    array = ask(place, "1-4%2")
    run_tick(place.group.pk)
    ids = list(array.elements.filter(held_for="").values_list("pk", flat=True))
    for each in ids:
        begin_termination(each, reason=Reason.COMMAND_FINISHED, actor=SYSTEM)
    ends: dict[str, Any] = {
        "from_status": Status.TERMINATING,
        "to": Status.TERMINATED,
        "reason": Reason.COMMAND_FINISHED,
    }
    asked: list[object] = []
    monkeypatch.setattr(transitions, "enqueue_on_commit", lambda name, **given: asked.append((name, given)))
    with django_capture_on_commit_callbacks(execute=True):
        assert set(transitions.transition_many(ids, **ends, actor=SYSTEM)) == set(ids)
    assert asked == [(TaskName.LOOK_AT_ARRAY, {"array_id": str(array.pk)})]
    assert release_elements(array.pk) == 2


def test_an_end_that_nobody_followed_is_found_by_reconciling(place: Place) -> None:
    array = ask(place, "1-4%2")
    end(place, array, 1)  # and whoever was to let in the next is killed here
    assert let_in(array) == [2]
    loop.reconcile_sessions()
    assert let_in(array) == [2, 3]


def test_reconciler_releases_no_element_above_the_maximum(
    place: Place, django_assert_num_queries: Any
) -> None:
    array = ask(place, "1-4%2")
    with django_assert_num_queries(1):
        release_all_arrays()
    assert let_in(array) == [1, 2]


def test_another_attempt_keeps_its_place(place: Place) -> None:
    array = ask(place, "1-3%1", max_retries=1)
    end(place, array, 1, Reason.COMMAND_FAILED)
    again = array.elements.get(array_index=1)
    assert (again.status, again.retry_count) == (Status.PENDING, 1)
    release_all_arrays()
    assert let_in(array) == [1]
    end(place, array, 1, Reason.COMMAND_FAILED)
    release_all_arrays()
    assert let_in(array) == [2]


def test_one_that_is_stopped_while_held_is_passed_over(place: Place) -> None:
    array = ask(place, "1-4%1")
    terminate_session(actor=actor_for(place.owner), session_id=array.elements.get(array_index=2).pk)
    schedule_stop(actor=actor_for(place.owner), session_id=array.elements.get(array_index=3).pk)
    end(place, array, 1)
    release_all_arrays()
    assert let_in(array) == [4]


def test_a_group_that_is_closed_for_a_while_changes_no_places(place: Place) -> None:
    array = ask(place, "1-4%2")
    for types in (["interactive"], ["interactive", "batch"]):
        update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"session_types": types})
        update_group_holds()
        release_all_arrays()
        held = "group_closed" if "batch" not in types else ""
        assert [each.held_for for each in elements(array)] == [held, held, "array_limit", "array_limit"]


def test_after_others_and_a_start_time_it_still_waits_its_turn(place: Place) -> None:
    before = place.run(type="batch", command="true", name="prepare")
    at = clock.now() + timedelta(hours=1)
    array = ask(place, "1-4%2", dependencies=["prepare"], start_at=at.isoformat(), pending_timeout_s=60)
    assert {each.held_for for each in elements(array)} == {"dependency"}

    begin_termination(before.pk, reason=Reason.COMMAND_FINISHED, actor=SYSTEM)
    transitions.finish(before.pk, actor=SYSTEM)
    settle_dependents(before.pk)
    assert {each.held_for for each in elements(array)} == {"start_time"}

    with clock.frozen_at(at + timedelta(seconds=1)):
        release_due_starts()
        release_all_arrays()
        assert [each.held_for for each in elements(array)] == ["", "", "array_limit", "array_limit"]
        waits = {each.deadline_at for each in elements(array) if not each.held_for}
        assert waits == {clock.now() + timedelta(minutes=1)}


def test_after_others_the_first_are_let_in_by_the_same_task(place: Place) -> None:
    before = place.run(type="batch", command="true", name="prepare")
    array = ask(place, "1-4%2", dependencies=["prepare"])
    begin_termination(before.pk, reason=Reason.COMMAND_FINISHED, actor=SYSTEM)
    transitions.finish(before.pk, actor=SYSTEM)
    settle_dependents(before.pk)
    assert let_in(array) == [1, 2]


def test_limits_count_all_elements_and_refuse_all_or_none(place: Place) -> None:
    limit(place.owner, max_pending_sessions=4)
    with pytest.raises(LimitExceeded) as refused:
        ask(place, "1-5%1")
    assert [(state["limit"], state["asked"]) for state in refused.value.limits] == [("pending_sessions", 5)]
    assert not SessionArray.objects.exists()
    ask(place, "1-4%1")
    assert use_of(place.owner)["pending_sessions"] == 4


def test_a_name_that_is_offered_is_free_for_an_array_too(place: Place) -> None:
    actor = actor_for(place.owner)
    for expected in ("sweep-1", "sweep-2"):
        name = suggest_name(actor, "sweep")
        assert name == expected
        ask(place, "1-2", name=name)


def test_a_used_name_of_any_element_refuses_all(place: Place) -> None:
    place.enqueue(name="sweep-3")
    with pytest.raises(Conflict, match="sweep-3"):
        ask(place, "1-4")
    assert not SessionArray.objects.exists()
    with pytest.raises(Conflict, match="sweep-3"):
        forecast_session(
            actor_for(place.owner),
            parse_request(place.request(name="sweep", type="batch", command="true", array="1-4")),
        )


def test_the_count_of_statements_does_not_grow(place: Place, django_assert_max_num_queries: Any) -> None:
    with django_assert_max_num_queries(60) as few:
        ask(place, "1-3%1")
    with django_assert_max_num_queries(len(few.captured_queries)):
        ask(place, "1-150%10", name="many")


def test_the_database_refuses_half_an_element_and_one_index_twice(place: Place) -> None:
    array = ask(place, "1-2")
    first = array.elements.get(array_index=1)
    for wrong in ({"array": None}, {"array_index": None}, {"array_index": 2}, {"type": "interactive"}):
        with pytest.raises(IntegrityError), transaction.atomic():
            ComputeSession.objects.filter(pk=first.pk).update(**wrong)


def test_containers_are_told_which_element_they_are(place: Place) -> None:
    array, lone = ask(place, "5-6"), place.enqueue()
    run_tick(place.group.pk)
    session = ComputeSession.objects.with_parts().get(array=array, array_index=6)
    plan = build_kernel_plan(session, session.kernels.get())
    told = {name: text for name, text in build_environment(plan).items() if "ARRAY" in name}
    assert told == {
        "BERTH_ARRAY_ID": str(array.pk),
        "BERTH_ARRAY_INDEX": "6",
        "BERTH_ARRAY_COUNT": "2",
    }
    alone = ComputeSession.objects.with_parts().get(pk=lone.pk)
    plan = build_kernel_plan(alone, alone.kernels.get())
    assert not any("ARRAY" in name for name in build_environment(plan))


def test_all_elements_end_in_one_go(place: Place) -> None:
    array = ask(place, "1-6%4", max_retries=3)
    run_tick(place.group.pk)
    running = array.elements.get(array_index=1)
    launch_session(running.pk)
    failed = array.elements.get(array_index=2)
    begin_termination(failed.pk, reason=Reason.COMMAND_FAILED, actor=SYSTEM)

    terminate_array(actor=actor_for(place.owner), array_id=array.pk)
    terminate_array(actor=actor_for(place.owner), array_id=array.pk)
    release_all_arrays()
    for each in array.elements.filter(status=Status.TERMINATING):
        end_session(each.pk)

    found = elements(array)
    assert [each.status for each in found] == ["TERMINATED"] * 4 + ["CANCELLED"] * 2
    assert {each.status_reason for each in found if each.pk != failed.pk} == {"user_requested"}
    assert all(each.ended_at and each.deadline_at is None for each in found)
    assert place.occupied() == {}
    assert use_of(place.owner) == {}
    lines = AuditEntry.objects.filter(action="sessions.terminate_session")
    assert {each.target_label for each in lines} == {f"sweep-{index}" for index in (1, 3, 4, 5, 6)}
    assert progress_by_array([array])[array.pk] == Progress({"TERMINATED": 4, "CANCELLED": 2}, failed=2)


def test_stopping_an_array_requires_permission_on_sessions(place: Place) -> None:
    array = ask(place, "1-2")
    for person, refusal in (
        (make_user(member_of=place.project), NotFound),
        (make_user(domain=place.project.domain, role=Role.DOMAIN_MONITOR), PermissionDenied),
    ):
        with pytest.raises(refusal):
            terminate_array(actor=actor_for(person), array_id=array.pk)
    with pytest.raises(NotFound):
        terminate_array(actor=actor_for(place.owner), array_id=uuid4())
    terminate_array(actor=actor_for(make_user(admin_of=place.project)), array_id=array.pk)
    assert {each.status_reason for each in elements(array)} == {"admin_requested"}


@pytest.mark.django_db(transaction=True)
def test_two_ends_at_once_let_in_two(place: Place) -> None:
    """Each end commits before its task looks; whichever task is second counts what the first let in."""
    array = ask(place, "1-12%4")
    run_tick(place.group.pk)
    for round_of in range(2):
        ended = let_in(array)[:2]
        barrier = Barrier(2)

        def end_and_release(index: int, barrier: Barrier = barrier) -> int:
            try:
                session = array.elements.get(array_index=index)
                begin_termination(session.pk, reason=Reason.COMMAND_FINISHED, actor=SYSTEM)
                barrier.wait(timeout=30)
                finish_or_retry(session.pk, actor=SYSTEM)
                return release_elements(array.pk)
            finally:
                connection.close()

        with ThreadPoolExecutor(2) as pool:
            released = list(pool.map(end_and_release, ended))
        assert sum(released) == 2, f"round {round_of}: {released}"
        assert len(let_in(array)) == 4
        run_tick(place.group.pk)


@pytest.mark.django_db(transaction=True)
def test_ending_all_elements_during_release_leaves_none(place: Place) -> None:
    array = ask(place, "1-30%5")
    barrier = Barrier(3)

    def let_go() -> None:
        try:
            barrier.wait(timeout=30)
            for _ in range(5):
                release_elements(array.pk)
        finally:
            connection.close()

    def end_all() -> None:
        try:
            barrier.wait(timeout=30)
            terminate_array(actor=actor_for(place.owner), array_id=array.pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(let_go), pool.submit(let_go), pool.submit(end_all)]:
            done.result(timeout=60)
    assert not array.elements.live().exists()
