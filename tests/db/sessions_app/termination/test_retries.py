"""Retries of batch sessions after failures and lost agents: never concurrent, never lost."""

from datetime import timedelta

import pytest

from accounts.core.roles import Role
from agents.core.states import AgentState
from agents.machines import lifecycle as agent_lifecycle
from agents.models import Agent
from common import clock
from common.actors import SYSTEM
from common.errors import InvalidInput
from common.messaging.dispatch import TaskName
from common.models import AuditEntry
from scheduler.tick import run_tick
from sessions_app.core.states import REASON_SENTENCES, Reason, Status
from sessions_app.events import CapacityReleased, SessionsEnded
from sessions_app.launch.launcher import launch_session
from sessions_app.launch.terminator import end_session, lost_grace
from sessions_app.lifecycle import transitions
from sessions_app.lifecycle.transitions import IllegalTransition
from sessions_app.models import (
    ComputeSession,
    KernelAllocation,
    KernelLog,
    SessionIdle,
    SessionTransition,
    SessionWarning,
)
from sessions_app.queue.dependents import settle_all_dependents
from sessions_app.reconciler import container_check, loop
from sessions_app.termination.retries import finish_or_retry
from sessions_app.termination.service import begin_termination, terminate_session
from tests.factories import actor_for, make_user
from tests.factories_limits import limit, use_of
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db


def batch(place: Place, **changes: object) -> ComputeSession:
    return place.run(type="batch", command="python train.py", **changes)


def fail(place: Place, session: ComputeSession, reason: Reason = Reason.COMMAND_FAILED) -> ComputeSession:
    begin_termination(session.pk, reason=reason, actor=SYSTEM, exit_code=1)
    end_session(session.pk)
    return place.fresh(session)


def test_what_waits_again_has_ended_with_no_code(place: Place) -> None:
    """Else who gives it up then would be told that the command went well."""
    session = batch(place, requeues=True)
    begin_termination(session.pk, reason=Reason.AGENT_LOST, actor=SYSTEM, exit_code=0)
    end_session(session.pk)
    assert place.fresh(session).status == Status.PENDING
    terminate_session(actor=actor_for(place.owner), session_id=session.pk)
    ended = place.fresh(session)
    assert (ended.status, ended.exit_code) == (Status.CANCELLED, None)


def lose(place: Place) -> None:
    if Agent.objects.get(pk=place.agent.pk).state != AgentState.LOST:
        agent_lifecycle.transition(place.agent.pk, to=AgentState.LOST, actor=SYSTEM)
    with clock.frozen_at(clock.now() + lost_grace() + timedelta(seconds=1)):
        loop.end_sessions_of_lost_agents(clock.now())


def containers_of(place: Place) -> set[str]:
    return {state.name for state in place.runtime.list_containers({})}


def run_again(place: Place, session: ComputeSession) -> ComputeSession:
    run_tick(place.group.pk)
    launch_session(session.pk)
    return place.fresh(session)


def test_a_failure_is_tried_again_as_often_as_was_asked(place: Place) -> None:
    session = batch(place, max_retries=2, name="train")
    for number in (1, 2):
        waiting = fail(place, session)
        assert (waiting.status, waiting.status_reason) == (Status.PENDING, "retried")
        assert f"retry {number} of 2" in str(waiting.status_message)
        assert (waiting.outcome, waiting.started_at, waiting.ended_at) == ("", None, None)
        assert (place.occupied(), KernelAllocation.objects.count()) == ({}, 0)

        session = run_again(place, session)
        kernel = session.kernels.get()
        assert (session.status, kernel.attempt) == (Status.RUNNING, number + 1)
        assert containers_of(place) == {kernel.container_name}

    ended = fail(place, session)
    assert (ended.status, ended.status_reason, ended.retry_count) == (Status.TERMINATED, "command_failed", 2)
    assert KernelLog.objects.count() == 1


@pytest.mark.parametrize(
    "reason", [Reason.COMMAND_FINISHED, Reason.USER_REQUESTED, Reason.OUT_OF_MEMORY, Reason.COMMAND_TIMED_OUT]
)
def test_other_ends_are_ends(place: Place, reason: Reason) -> None:
    session = batch(place, max_retries=2, requeues=True)
    assert not fail(place, session, reason).is_live


def test_a_lost_machine_sends_it_back_if_that_was_chosen(place: Place) -> None:
    chosen, other = batch(place, requeues=True), batch(place, max_retries=3)
    lose(place)
    lose(place)

    waiting = place.fresh(chosen)
    assert (waiting.status, waiting.status_reason, waiting.retry_count) == (Status.PENDING, "requeued", 0)
    assert (waiting.eligible_at, waiting.kernels.get().agent) == (None, None)
    assert place.fresh(other).status_reason == "agent_lost"
    assert place.occupied() == {}


@pytest.mark.parametrize("exit_code", [0, 143])
def test_a_machine_that_was_started_anew_before_it_was_lost_sends_it_back_too(
    place: Place, exit_code: int
) -> None:
    """Whatever its command said when it was told to end."""
    chosen, other = batch(place, requeues=True), batch(place, max_retries=3)
    for session in (chosen, other):
        place.runtime.finish(session.kernels.get().container_name, exit_code=exit_code)
    place.runtime.reboot()
    loop.reconcile_agent(place.agent, place.runtime)
    end_session(chosen.pk), end_session(other.pk)

    assert (place.fresh(chosen).status, place.fresh(chosen).status_reason) == (Status.PENDING, "requeued")
    assert place.fresh(other).status_reason == "agent_lost"
    assert "started anew" in str(place.fresh(other).status_message)


@pytest.mark.parametrize(
    ("after", "exit_code", "reason"),
    [
        # Of what ended well long before one believes it; a portal that was off as well sees the rest late.
        (timedelta(hours=9), 0, Reason.COMMAND_FINISHED),
        (timedelta(hours=9), 143, Reason.AGENT_LOST),
        # It ended while its machine was up, or that machine's clock was set.
        (-timedelta(minutes=2), 0, Reason.COMMAND_FINISHED),
        (-timedelta(minutes=2), 143, Reason.COMMAND_FAILED),
    ],
)
def test_what_became_of_a_command_is_told_by_when_its_machine_was_started_anew(
    place: Place, after: timedelta, exit_code: int, reason: Reason
) -> None:
    session = batch(place, requeues=True)
    place.runtime.finish(session.kernels.get().container_name, exit_code=exit_code)
    place.runtime.reboot(clock.now() + after)
    loop.reconcile_agent(place.agent, place.runtime)
    assert place.fresh(session).status_reason == reason


def test_a_container_that_began_after_its_machine_has_ended_by_itself(place: Place) -> None:
    place.runtime.reboot()
    session = batch(place, requeues=True)
    place.runtime.finish(session.kernels.get().container_name, exit_code=143)
    loop.reconcile_agent(place.agent, place.runtime)
    assert place.fresh(session).status_reason == Reason.COMMAND_FAILED


def test_the_machine_that_comes_back_loses_the_old_container_and_keeps_the_new_one(place: Place) -> None:
    session = batch(place, requeues=True)
    old = session.kernels.get().container_name
    lose(place)
    agent_lifecycle.transition(place.agent.pk, to=AgentState.CONNECTED, actor=SYSTEM)
    session = run_again(place, session)
    new = session.kernels.get().container_name
    assert containers_of(place) == {old, new}

    loop.reconcile_agent(place.agent, place.runtime)

    assert containers_of(place) == {new}
    assert place.fresh(session).is_running


def test_what_is_told_of_an_attempt_that_is_over_ends_nothing(place: Place) -> None:
    session = batch(place, max_retries=1)
    [before] = session.kernels.select_related("session")
    fail(place, session)
    run_again(place, session)

    container_check.check_running(before, place.runtime)
    assert place.fresh(session).is_running


def test_an_end_that_comes_twice_is_one(place: Place) -> None:
    session = batch(place, max_retries=1)
    waiting = fail(place, session)
    end_session(session.pk)
    assert finish_or_retry(session.pk, actor=SYSTEM).status == Status.PENDING
    assert place.fresh(session).retry_count == waiting.retry_count == 1
    launch_session(session.pk)  # of the attempt before, late
    assert place.fresh(session).status == Status.PENDING
    with pytest.raises(IllegalTransition):
        begin_termination(session.pk, reason=Reason.COMMAND_FAILED, actor=SYSTEM)


def test_after_a_failure_it_stands_behind_those_that_wait(place: Place) -> None:
    place.agent.slots.filter(slot_name="cpu").update(capacity=1000)
    session = batch(place, max_retries=1)
    patient = place.enqueue()
    fail(place, session)
    run_tick(place.group.pk)
    assert place.fresh(patient).status == Status.SCHEDULED
    assert place.fresh(session).queue_position == 1


def test_it_ends_where_policies_let_nothing_more_wait(place: Place) -> None:
    session = batch(place, max_retries=5)
    limit(place.project, max_pending_sessions=0)
    ended = fail(place, session)
    assert ended.status_reason == "command_failed"
    assert "It is not tried again: As many sessions wait as its limits allow." in str(ended.status_message)
    assert use_of(place.project).get("pending_sessions", 0) == 0


def test_limits_count_each_attempt_once(place: Place) -> None:
    limit(place.project, max_sessions=5)
    session = batch(place, max_retries=1)
    fail(place, session)
    used = use_of(place.project)
    assert (used["sessions"], used["pending_sessions"], used.get("slots.cpu", 0)) == (1, 1, 0)
    place.end(run_again(place, session))
    assert not any(use_of(place.project).values())


def test_one_that_waits_again_can_be_stopped(place: Place) -> None:
    session = batch(place, max_retries=1)
    fail(place, session)
    terminate_session(actor=actor_for(place.owner), session_id=session.pk)
    assert place.fresh(session).status == Status.CANCELLED


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_one_that_is_about_to_be_tried_again_can_be_stopped(place: Place, who: str) -> None:
    session = batch(place, max_retries=3)
    begin_termination(session.pk, reason=Reason.COMMAND_FAILED, actor=SYSTEM, exit_code=1)
    person = place.owner if who == "owner" else make_user(role=Role.SUPERADMIN)
    terminate_session(actor=actor_for(person), session_id=session.pk)
    end_session(session.pk)
    assert (place.fresh(session).status, place.fresh(session).outcome_reason) == (
        Status.TERMINATED,
        Reason.COMMAND_FAILED,
    )
    assert AuditEntry.objects.filter(action="sessions.terminate_session").exists()


def test_the_time_to_wait_holds_for_each_attempt(place: Place) -> None:
    session = batch(place, max_retries=1, pending_timeout_s=60)
    waiting = fail(place, session)
    assert timedelta(seconds=50) < waiting.deadline_at - clock.now() <= timedelta(minutes=1)


def test_dependents_wait_for_the_last_attempt(place: Place) -> None:
    session = batch(place, max_retries=1, name="train")
    later = place.enqueue(dependencies=[{"session": "train", "when": "failure"}])
    fail(place, session)
    settle_all_dependents()
    assert place.fresh(later).held_for == "dependency"
    fail(place, run_again(place, session))
    settle_all_dependents()
    assert place.fresh(later).held_for == ""


@pytest.mark.parametrize("asked", [{"max_retries": 1}, {"requeues": True}])
def test_only_commands_are_tried_again(place: Place, asked: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="Only a batch session") as refused:
        place.enqueue(**asked)
    assert set(refused.value.fields) == set(asked)


def test_an_end_finds_those_that_wait_for_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(transitions, "enqueue_on_commit", lambda name, **given: asked.append((name, given)))
    plain = batch(place, name="plain")
    place.enqueue(dependencies=[{"session": "plain", "when": "any"}])
    begin_termination(plain.pk, reason=Reason.COMMAND_FAILED, actor=SYSTEM)
    transitions.finish(plain.pk, actor=SYSTEM)
    assert asked == [(TaskName.SETTLE_DEPENDENTS, {"session_id": str(plain.pk)})]


def test_an_end_needs_no_history(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    announced: list[object] = []
    session = batch(place)
    begin_termination(session.pk, reason=Reason.COMMAND_FAILED, actor=SYSTEM)
    SessionTransition.objects.filter(session=session).delete()
    monkeypatch.setattr(transitions, "publish", announced.append)

    ended = transitions.finish(session.pk, actor=SYSTEM)
    assert (ended.status, ended.status_message) == (ended.outcome, REASON_SENTENCES[Reason.COMMAND_FAILED])
    assert announced == [CapacityReleased(place.group.pk), SessionsEnded((session.pk,))]


def test_policies_are_asked_again_before_another_attempt(place: Place) -> None:
    session = batch(place, max_retries=1)
    limit(place.project, max_slots={"cpu": 500})
    ended = fail(place, session)
    assert (ended.status, ended.status_reason, ended.retry_count) == (Status.TERMINATED, "command_failed", 0)
    assert str(ended.status_message).startswith("It is not tried again: ")


def test_former_members_get_no_retry(place: Place) -> None:
    session = batch(place, max_retries=1)
    place.owner.memberships.all().delete()
    assert "It is not tried again" in str(fail(place, session).status_message)


def test_another_attempt_begins_unused_and_not_extended(place: Place) -> None:
    session = batch(place, max_retries=1)
    now = clock.now()
    SessionIdle.objects.create(session=session, interacted_at=now, extensions=2, kept_until=now)
    SessionWarning.objects.create(session=session, cause="lifetime", ends_at=now, mark_s=300, warned_at=now)
    waiting = fail(place, session)
    assert waiting.status == Status.PENDING
    assert not SessionIdle.objects.exists()
    assert not SessionWarning.objects.exists()
