"""A session from submit to end, through the services and the database, on an engine in memory."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import structlog
from django.db import transaction

from accounts.tenancy.service import remove_member
from common.actors import SYSTEM
from common.errors import Conflict, InvalidInput, LimitExceeded, NotFound, PermissionDenied
from scheduler.tick import run_tick
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import parse_request
from sessions_app.core.states import DEADLINES_S, Reason, Status
from sessions_app.launch.launcher import launch_session
from sessions_app.launch.terminator import end_session
from sessions_app.lifecycle import transitions
from sessions_app.lifecycle.transitions import IllegalTransition
from sessions_app.models import ComputeSession, KernelAllocation, SessionTransition
from sessions_app.termination.service import terminate_session
from tests import factories
from tests.doubles.runtimes import FullRuntime, LostRuntime
from tests.factories_sessions import GIB, Place

pytestmark = pytest.mark.django_db(transaction=True)


def statuses(session: ComputeSession) -> list[str]:
    return list(SessionTransition.objects.filter(session=session).values_list("to_status", flat=True))


def test_session_goes_from_queue_to_running_to_its_end(place: Place) -> None:
    session = place.run()
    assert session.status == Status.RUNNING
    assert place.occupied() == {"cpu": 1000, "mem": GIB}
    kernel = session.kernels.get()
    assert place.runtime.inspect_container(kernel.container_name) is not None
    assert kernel.address

    ended = place.end(session)

    assert (ended.status, ended.status_reason) == (Status.TERMINATED, Reason.USER_REQUESTED)
    assert place.occupied() == {}
    assert place.runtime.list_containers({}) == []
    assert place.runtime.list_networks({}) == []
    assert place.runtime.list_volumes({}) == []
    assert statuses(ended) == [
        "PENDING", "SCHEDULED", "PREPARING", "STARTING", "RUNNING", "TERMINATING", "TERMINATED",
    ]  # fmt: skip


def test_autostart_apps_start_with_the_session_and_others_do_not(place: Place) -> None:
    session = place.run()
    [argv] = place.runtime.processes_of(session.kernels.get().container_name)
    assert "jupyter" in argv[-1]


def test_waiting_session_is_cancelled_at_once(place: Place) -> None:
    session = place.enqueue()
    ended = terminate_session(actor=factories.actor_for(place.owner), session_id=session.pk)
    assert ended.status == Status.CANCELLED
    assert ended.ended_at is not None


def test_stopping_twice_changes_nothing(place: Place) -> None:
    session = place.run()
    ended = place.end(session)
    again = place.end(session)
    assert again.status_changed_at == ended.status_changed_at


def test_session_stopped_while_it_is_prepared_leaves_nothing(place: Place) -> None:
    session = place.place()
    terminate_session(actor=factories.actor_for(place.owner), session_id=session.pk)
    launch_session(session.pk)
    end_session(session.pk)
    assert place.fresh(session).status == Status.TERMINATED
    assert place.occupied() == {}
    assert place.runtime.list_containers({}) == []


def test_full_machine_ends_in_error_with_its_reason(place: Place) -> None:
    place.replace_runtime(FullRuntime)
    session = place.place()
    launch_session(session.pk)
    end_session(session.pk)
    assert place.fresh(session).status_reason == Reason.NO_ROOM_ON_AGENT


def test_launch_waits_for_an_engine_that_restarts(place: Place) -> None:
    runtime = place.replace_runtime(LostRuntime)
    session = place.place()
    runtime.is_lost = True
    launch_session(session.pk)
    assert place.fresh(session).status == Status.PREPARING

    runtime.is_lost = False
    launch_session(session.pk)
    assert place.fresh(session).status == Status.RUNNING


@pytest.mark.parametrize("is_running", [False, True])
def test_sessions_of_former_members_do_not_start(place: Place, *, is_running: bool) -> None:
    """It would have its folders; what runs goes on, and nobody gets into it."""
    session = place.run() if is_running else place.enqueue()
    remove_member(actor=SYSTEM, project=place.project, user=place.owner)
    run_tick(place.group.pk)
    launch_session(session.pk)
    seen = place.fresh(session)
    if is_running:
        assert seen.is_running
        return
    assert (seen.status, seen.outcome_reason) == (Status.TERMINATING, Reason.OWNER_LEFT)
    assert str(seen.status_message).startswith("Its owner may not use its project any more")
    assert place.runtime.list_containers({}) == []


def test_engine_that_is_gone_keeps_the_session_terminating_until_it_is_back(place: Place) -> None:
    runtime = place.replace_runtime(LostRuntime)
    session = place.run()
    terminate_session(actor=factories.actor_for(place.owner), session_id=session.pk)

    runtime.is_lost = True
    end_session(session.pk)
    assert place.fresh(session).status == Status.TERMINATING
    assert place.occupied()

    runtime.is_lost = False
    end_session(session.pk)
    assert place.fresh(session).status == Status.TERMINATED
    assert place.occupied() == {}


def test_repeated_transition_is_no_second_line_of_history(place: Place) -> None:
    session = place.place()
    before = statuses(session)
    transitions.transition(session.pk, to=Status.SCHEDULED, reason=Reason.PLACED, actor=SYSTEM)
    assert statuses(session) == before


def test_illegal_transition_is_refused_and_changes_nothing(place: Place) -> None:
    session = place.enqueue()
    with pytest.raises(IllegalTransition):
        transitions.transition(session.pk, to=Status.RUNNING, reason=Reason.CONTAINERS_UP, actor=SYSTEM)
    assert place.fresh(session).status == Status.PENDING


def test_many_sessions_make_no_move_that_the_table_does_not_have(place: Place) -> None:
    session = place.place()
    with pytest.raises(IllegalTransition, match="SCHEDULED can become RUNNING"):
        transitions.transition_many(
            [session.pk],
            from_status=Status.SCHEDULED,
            to=Status.RUNNING,
            reason=Reason.CONTAINERS_UP,
            actor=SYSTEM,
        )
    assert place.fresh(session).status == Status.SCHEDULED


def test_a_repeated_move_of_many_changes_nothing(place: Place) -> None:
    sessions = [place.place(name="one"), place.place(name="other")]

    def prepare() -> list[UUID]:
        return transitions.transition_many(
            [each.pk for each in sessions],
            from_status=Status.SCHEDULED,
            to=Status.PREPARING,
            reason=Reason.PREPARING,
            actor=SYSTEM,
        )

    assert set(prepare()) == {each.pk for each in sessions}
    assert prepare() == []
    for session in sessions:
        assert statuses(session) == ["PENDING", "SCHEDULED", "PREPARING"]


def test_many_sessions_end_at_once_and_release_what_they_hold(place: Place) -> None:
    sessions = [place.run(name="one"), place.run(name="other")]
    ids = [each.pk for each in sessions]
    for from_status, to in ((Status.RUNNING, Status.TERMINATING), (Status.TERMINATING, Status.TERMINATED)):
        assert place.occupied()
        moved = transitions.transition_many(
            ids, from_status=from_status, to=to, reason=Reason.USER_REQUESTED, actor=SYSTEM
        )
        assert set(moved) == set(ids)
    assert place.occupied() == {}
    assert {place.fresh(each).ended_at is None for each in sessions} == {False}


@pytest.mark.parametrize(
    ("timeout_s", "lifetime_s", "runs_s"),
    [(60, None, 60), (None, 90, 90), (60, 90, 60), (90, 60, 60), (None, None, DEADLINES_S[Status.RUNNING])],
)
@pytest.mark.parametrize("are_many", [False, True])
def test_a_session_runs_for_the_shorter_of_its_limits(
    place: Place, timeout_s: int | None, lifetime_s: int | None, runs_s: int, *, are_many: bool
) -> None:
    session = place.place()
    ComputeSession.objects.filter(pk=session.pk).update(
        timeout_s=timeout_s, lifetime_s=lifetime_s, status=Status.STARTING.value
    )
    why: dict[str, Any] = {"to": Status.RUNNING, "reason": Reason.CONTAINERS_UP, "actor": SYSTEM}
    if are_many:
        transitions.transition_many([session.pk], from_status=Status.STARTING, **why)
    else:
        transitions.transition(session.pk, **why)
    session = place.fresh(session)
    assert session.deadline_at == session.started_at + timedelta(seconds=runs_s)


def test_rolled_back_transition_publishes_nothing(place: Place) -> None:
    """Nor is one told before it is committed: others wait for its rows."""

    def move() -> None:
        transitions.transition_many(
            [session.pk],
            from_status=Status.SCHEDULED,
            to=Status.PREPARING,
            reason=Reason.PREPARING,
            actor=SYSTEM,
        )

    session = place.place()
    with structlog.testing.capture_logs() as lines:
        with transaction.atomic():
            move()
            transaction.set_rollback(True)
        assert lines == []
        with transaction.atomic():
            move()
            assert lines == []
    assert [(line["event"], line["session_ids"], line["to"]) for line in lines] == [
        ("session.transitions", [str(session.pk)], "PREPARING")
    ]


def test_allocations_are_there_exactly_while_the_session_holds_resources(place: Place) -> None:
    session = place.enqueue()
    assert not KernelAllocation.objects.exists()
    session = place.run()
    assert KernelAllocation.objects.filter(kernel__session=session).count() == 2
    place.end(session)
    assert not KernelAllocation.objects.filter(kernel__session=session).exists()


def test_name_is_unique_among_live_sessions_of_a_person_only(place: Place) -> None:
    session = place.run(name="work")
    with pytest.raises(Conflict, match="work"):
        place.enqueue(name="work")
    place.end(session)
    assert place.enqueue(name="work").status == Status.PENDING


def test_unknown_project_image_and_group_are_not_found(place: Place) -> None:
    for field in ("project", "image", "resource_group"):
        with pytest.raises(NotFound) as refusal:
            place.enqueue(**{field: "nowhere"})
        assert field in refusal.value.fields


def test_project_of_others_is_like_an_absent_one(place: Place) -> None:
    stranger = factories.make_user(member_of=factories.make_project())
    with pytest.raises(NotFound):
        place.enqueue(by=stranger)


def test_admin_who_is_no_member_sees_the_project_but_starts_nothing_in_it(place: Place) -> None:
    superadmin = factories.make_user(domain=place.project.domain, role=factories.Role.SUPERADMIN)
    with pytest.raises(PermissionDenied):
        place.enqueue(by=superadmin)


def test_more_than_any_machine_has_is_refused_with_the_largest_that_fits(place: Place) -> None:
    with pytest.raises(LimitExceeded) as refusal:
        place.enqueue(resources={"cpu": 1000, "mem": "1g"})
    assert "largest" in refusal.value.hint


def test_less_than_the_image_needs_is_refused(place: Place) -> None:
    place.image.min_slots = {"mem": 2 * GIB}
    place.image.save(update_fields=["min_slots"])
    with pytest.raises(InvalidInput, match="at least 2 GiB"):
        place.enqueue()


def test_foreign_session_is_like_an_absent_one(place: Place) -> None:
    session = place.run()
    stranger = factories.make_user()
    with pytest.raises(NotFound):
        terminate_session(actor=factories.actor_for(stranger), session_id=session.pk)


def test_request_that_is_enqueued_names_its_kernel_and_history(place: Place) -> None:
    actor = factories.actor_for(place.owner)
    session = enqueue_session(actor=actor, request=parse_request(place.request()))
    assert [kernel.name for kernel in session.kernels.all()] == ["main1"]
    assert statuses(session) == ["PENDING"]
