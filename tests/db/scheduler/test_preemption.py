"""Preemption: notice, grace period, and no preemption without use."""

from datetime import datetime, timedelta

import pytest
from django.db import IntegrityError, transaction

from agents.core.states import AgentState
from agents.machines.service import register_agent
from agents.models import Agent, ResourceGroup
from agents.resource_groups.service import move_agent
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from common import clock
from common.actors import SYSTEM
from common.clock import ClockJump
from portal.models import Notification
from portal.notifications.session_warning import notify_of_warnings
from scheduler.commit.plan_commit import commit_plan
from scheduler.engine import ReasonCode, plan
from scheduler.snapshot.reader import read_snapshot
from scheduler.snapshot.running_sessions import read_preemptions
from scheduler.tick import run_tick
from sessions_app.core.queue_options import Hold
from sessions_app.core.states import DEADLINES_S, Reason, Status
from sessions_app.idle import enforcer, messages
from sessions_app.launch.launcher import launch_session
from sessions_app.launch.terminator import end_session
from sessions_app.models import ComputeSession, Preemption, PreemptionOutcome, SessionWarning
from sessions_app.selectors import Action, access_session
from sessions_app.termination import preemption
from sessions_app.termination.preemption import (
    PreemptionPlan,
    record_preemptions,
    settle_preemptions,
    shift_timestamps,
)
from sessions_app.termination.service import begin_termination, terminate_session
from tests.factories import actor_for
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
HALF, ALL = {"cpu": 4, "mem": "1g"}, {"cpu": 8, "mem": "1g"}


@pytest.fixture
def place() -> Place:
    place = make_place()
    group = ResourceGroup.objects.filter(pk=place.group.pk)
    group.update(preemptible_priority=0, preemption_after_s=0, preemption_grace_s=60)
    return place


def urgent(place: Place, **changes: object) -> ComputeSession:
    session = place.enqueue(**changes)
    ComputeSession.objects.filter(pk=session.pk).update(priority=10)
    return place.fresh(session)


def tick(place: Place) -> None:
    """And those who have to leave are told."""
    run_tick(place.group.pk)
    notify_of_warnings()


def over() -> datetime:
    """When the grace is over."""
    return clock.now() + timedelta(seconds=61)


def notices(session: ComputeSession) -> list[str]:
    return [row.outcome for row in Preemption.objects.filter(session=session).order_by("pk")]


def test_lower_priority_is_notified_ended_after_grace_and_the_higher_starts(place: Place) -> None:
    low = place.run(resources=HALF)
    high = urgent(place, resources=ALL)
    run_tick(place.group.pk)
    high = place.fresh(high)
    assert (high.status, high.status_reason) == (Status.PENDING, "making_room")
    settle_preemptions(over())
    assert place.fresh(low).is_running, "nobody was told"
    notify_of_warnings()
    assert Notification.objects.get(person=place.owner, code="preempted_soon").arguments["minutes"] == 1

    settle_preemptions(clock.now())
    assert place.fresh(low).is_running, "its grace is not over"
    settle_preemptions(over())
    settle_preemptions(over())
    low = place.fresh(low)
    assert (low.status, low.status_reason, low.outcome) == (
        Status.TERMINATING,
        Reason.PREEMPTED,
        Status.TERMINATED,
    )
    end_session(low.pk)
    tick(place)
    assert place.fresh(high).status == Status.SCHEDULED
    assert notices(low) == [PreemptionOutcome.ENDED]


def test_late_notice_starts_a_full_grace_period(place: Place) -> None:
    low = place.run(resources=ALL)
    urgent(place, resources=ALL)
    run_tick(place.group.pk)
    late = clock.now() - timedelta(seconds=1)
    Preemption.objects.update(ends_at=late)
    SessionWarning.objects.update(ends_at=late)
    notify_of_warnings()
    assert Notification.objects.get(code="preempted_soon").arguments["minutes"] == 1
    settle_preemptions(clock.now())
    assert place.fresh(low).is_running
    settle_preemptions(over())
    assert place.fresh(low).status == Status.TERMINATING


def test_page_of_preempted_session_shows_end_without_extension(place: Place) -> None:
    low, reader = place.run(resources=HALF), actor_for(place.owner)
    assert messages.next_end_row(reader, access_session(reader, low.pk, Action.VIEW)) is None
    urgent(place, resources=ALL)
    tick(place)
    told = messages.next_end_row(reader, access_session(reader, low.pk, Action.VIEW))
    assert told is not None
    assert (told["is_near"], told["extend"]) == (True, "")
    assert told["ends_at"] == Preemption.objects.get().ends_at
    assert "preempted by a session with a higher priority" in told["why"]


def test_preemption_is_cancelled_if_capacity_was_taken_meanwhile(place: Place) -> None:
    low, high = place.run(resources=HALF), urgent(place, resources=ALL)
    run_tick(place.group.pk)
    assert place.fresh(high).status_reason == "making_room"
    higher = place.enqueue(resources=HALF)
    ComputeSession.objects.filter(pk=higher.pk).update(priority=50)
    assert run_tick(place.group.pk) == [higher.pk]
    notify_of_warnings()
    settle_preemptions(over())
    assert place.fresh(low).is_running
    assert notices(low) == [PreemptionOutcome.SPARED]


@pytest.mark.parametrize("is_put_off", [False, True])
def test_end_within_grace_spares_a_victim(place: Place, is_put_off: bool) -> None:
    short, *others = (place.run(resources={"cpu": count, "mem": "1g"}) for count in (2, 3, 3))
    ending = ComputeSession.objects.filter(pk=short.pk)
    ending.update(timeout_s=600, deadline_at=clock.now() + timedelta(seconds=30))
    high = urgent(place, resources={"cpu": 5, "mem": "1g"})
    tick(place)
    notice = Preemption.objects.get()
    [low] = [each for each in others if each.pk == notice.session_id]
    settle_preemptions(clock.now())
    assert notices(low) == [PreemptionOutcome.OPEN], "what will end by itself is room"
    if is_put_off:
        ending.update(deadline_at=clock.now() + timedelta(minutes=10))
    settle_preemptions(over())
    assert notices(low) == [PreemptionOutcome.SPARED if is_put_off else PreemptionOutcome.ENDED]
    if not is_put_off:
        place.end(short)
        end_session(low.pk)
        tick(place)
        assert place.fresh(high).status == Status.SCHEDULED


def test_undeliverable_notice_does_not_block_preemption_for_ever(place: Place) -> None:
    low, high = place.run(resources=ALL), urgent(place, resources=ALL)
    run_tick(place.group.pk)  # and nobody tells
    ComputeSession.objects.filter(pk=high.pk).update(held_for=Hold.START_TIME.value)
    second = SimulatedRuntime(
        name="second", cpu_milli=8000, mem_bytes=32 * 2**30, images=(place.image.reference,)
    )
    adopt_runtime("simulated://second", second)
    register_agent(actor=SYSTEM, name="second", address="simulated://second", resource_group=place.group)
    other = place.run(resources=ALL)
    ComputeSession.objects.filter(pk=high.pk).update(held_for=Hold.NOTHING.value)
    late = clock.now() - timedelta(seconds=DEADLINES_S[Status.TERMINATING])
    Preemption.objects.update(ends_at=late)
    SessionWarning.objects.update(ends_at=late)
    tick(place)
    assert notices(other) == [PreemptionOutcome.OPEN], "others are asked"
    settle_preemptions(over())
    assert place.fresh(low).is_running, "one is enough"
    assert notices(low) == [PreemptionOutcome.SPARED]
    assert place.fresh(other).status == Status.TERMINATING


def test_further_ticks_preempt_no_more(place: Place) -> None:
    for _ in range(2):
        place.run(resources=HALF)
    high = urgent(place, resources=HALF)
    for _ in range(3):
        tick(place)
    assert Preemption.objects.count() == 1
    assert place.fresh(high).status_reason == "making_room"

    settle_preemptions(over())
    tick(place)
    assert Preemption.objects.count() == 1, "its room is on the way"


def test_preempted_capacity_goes_to_no_other_session(place: Place) -> None:
    low = place.run(resources=ALL)
    high = urgent(place, resources=ALL)
    tick(place)
    small = place.enqueue(resources=HALF)
    settle_preemptions(over())
    end_session(low.pk)
    tick(place)
    assert [place.fresh(each).status for each in (high, small)] == [Status.SCHEDULED, Status.PENDING]


def test_preemption_is_cancelled_if_the_session_is_cancelled(place: Place) -> None:
    low = place.run(resources=ALL)
    high = urgent(place, resources=ALL)
    tick(place)
    terminate_session(actor=actor_for(place.owner), session_id=high.pk)
    settle_preemptions(over())
    assert place.fresh(low).is_running
    assert notices(low) == [PreemptionOutcome.SPARED]
    assert messages.next_end_row(actor_for(place.owner), place.fresh(low)) is None

    urgent(place, resources=ALL)
    tick(place)
    assert notices(low) == [PreemptionOutcome.SPARED, PreemptionOutcome.OPEN], "for the next it may"


def test_preemption_is_cancelled_if_the_session_is_placed_elsewhere(place: Place) -> None:
    low = place.run(resources=HALF)
    other = place.run(resources=HALF)
    high = urgent(place, resources=HALF)
    tick(place)
    leaving = Preemption.objects.get().session_id
    [free] = [each for each in (low, other) if each.pk != leaving]
    place.end(free)
    tick(place)
    assert place.fresh(high).status == Status.SCHEDULED
    settle_preemptions(over())
    assert Preemption.objects.get().outcome == PreemptionOutcome.SPARED


def test_pausing_the_group_cancels_preemption_before_a_tick(place: Place) -> None:
    low = place.run(resources=HALF)
    urgent(place, resources=ALL)
    tick(place)
    ResourceGroup.objects.filter(pk=place.group.pk).update(is_active=False)
    settle_preemptions(over())
    assert (place.fresh(low).is_running, notices(low)) == (True, [PreemptionOutcome.SPARED])


def test_a_plan_that_took_longer_than_the_grace_is_committed(place: Place) -> None:
    ResourceGroup.objects.filter(pk=place.group.pk).update(preemption_grace_s=0)
    with clock.frozen_at(clock.now() - timedelta(minutes=5)):
        low = place.run(resources=HALF)
    urgent(place, resources=ALL)
    decided = plan(read_snapshot(place.group.pk), clock.now() - timedelta(seconds=2))
    commit_plan(decided)
    assert SessionWarning.objects.get(session=low).mark_s == 0


@pytest.mark.parametrize("change", ["limit", "pause", "rule", "priority"])
def test_preemption_is_cancelled_if_the_session_could_not_start(place: Place, change: str) -> None:
    low = place.run(resources=HALF)
    high = urgent(place, resources=ALL)
    tick(place)
    group = ResourceGroup.objects.filter(pk=place.group.pk)
    if change == "limit":
        limit(place.owner, max_slots={"cpu": 4000})
    elif change == "pause":
        group.update(is_active=False)
    elif change == "rule":
        group.update(preemptible_priority=None)
    else:
        ComputeSession.objects.filter(pk=high.pk).update(priority=-1)
    tick(place)
    settle_preemptions(over())
    assert place.fresh(low).is_running
    assert notices(low)[0] == PreemptionOutcome.SPARED


def test_preemption_that_ended_with_one_attempt_spares_the_next(place: Place) -> None:
    low = place.run(resources=ALL, type="batch", command="false", max_retries=1)
    high = urgent(place, resources=ALL)
    tick(place)
    begin_termination(low.pk, reason=Reason.COMMAND_FAILED, actor=SYSTEM, exit_code=1)
    end_session(low.pk)
    ComputeSession.objects.filter(pk=high.pk).update(held_for=Hold.START_TIME.value)
    tick(place)
    launch_session(low.pk)
    assert place.fresh(low).is_running
    settle_preemptions(over())
    assert place.fresh(low).is_running
    assert notices(low) == [PreemptionOutcome.ENDED]


def test_the_end_of_the_next_attempt_is_no_promise(place: Place) -> None:
    low = place.run(resources=HALF, type="batch", command="true", requeues=True)
    ComputeSession.objects.filter(pk=place.run(resources=HALF).pk).update(priority=50)
    high = urgent(place, resources=HALF)
    tick(place)
    settle_preemptions(over())
    assert read_preemptions(ResourceGroup.objects.get()).claims.keys() == {high.pk}
    end_session(low.pk)
    ComputeSession.objects.filter(pk=high.pk).update(held_for=Hold.START_TIME.value)
    run_tick(place.group.pk)
    launch_session(low.pk)
    terminate_session(actor=actor_for(place.owner), session_id=low.pk)
    assert place.fresh(low).status == Status.TERMINATING
    assert not read_preemptions(ResourceGroup.objects.get()).claims


def test_preempted_session_queues_behind_the_preempting_one(place: Place) -> None:
    ResourceGroup.objects.filter(pk=place.group.pk).update(ageing_s=1)
    low = place.run(resources=ALL, type="batch", command="true", requeues=True)
    ComputeSession.objects.filter(pk=low.pk).update(created_at=clock.now() - timedelta(days=2))
    high = urgent(place, resources=ALL)
    tick(place)
    settle_preemptions(over())
    end_session(low.pk)
    tick(place)
    assert [place.fresh(each).status for each in (high, low)] == [Status.SCHEDULED, Status.PENDING]


def test_no_notice_if_the_preempting_session_waits_no_more(place: Place) -> None:
    low = place.run(resources=ALL)
    high = urgent(place, resources=ALL)
    terminate_session(actor=actor_for(place.owner), session_id=high.pk)
    with transaction.atomic():
        record_preemptions([PreemptionPlan(high.pk, place.agent.pk, (low.pk,), over())])
    assert notices(low) == []


def test_reason_code_of_preemption_is_that_of_the_scheduler() -> None:
    assert preemption.MAKING_ROOM == ReasonCode.MAKING_ROOM


def test_one_that_ended_by_itself_is_left_alone(place: Place) -> None:
    low = place.run(resources=ALL)
    urgent(place, resources=ALL)
    tick(place)
    low = place.end(low)
    settle_preemptions(over())
    assert place.fresh(low).status_reason == Reason.USER_REQUESTED
    assert notices(low) == [PreemptionOutcome.ENDED]


@pytest.mark.parametrize("requeues", [True, False])
def test_a_batch_session_waits_again_if_it_chose_so(place: Place, requeues: bool) -> None:
    low = place.run(resources=ALL, type="batch", command="true", requeues=requeues)
    high = urgent(place, resources=ALL)
    tick(place)
    settle_preemptions(over())
    end_session(low.pk)
    low = place.fresh(low)
    assert low.status == (Status.PENDING if requeues else Status.TERMINATED)
    if requeues:
        assert str(low.status_message).startswith("It was preempted by a session with a higher priority")
    tick(place)
    assert place.fresh(high).status == Status.SCHEDULED
    launch_session(high.pk)
    tick(place)
    assert place.fresh(high).is_running, "who was made to leave makes nobody leave"


def test_what_the_group_forbids_does_not_happen(place: Place) -> None:
    place.run(resources=ALL)
    urgent(place, resources=ALL)
    group = ResourceGroup.objects.filter(pk=place.group.pk)
    for rule in ({"preemption_after_s": 600}, {"preemptible_priority": -1}, {"preemptible_priority": None}):
        group.update(preemptible_priority=0, preemption_after_s=0)
        group.update(**rule)
        tick(place)
        assert not Preemption.objects.exists(), rule


def test_a_machine_that_moves_does_not_carry_its_sessions_under_another_rule(place: Place) -> None:
    guest_of = make_place()
    guest = guest_of.run(resources=ALL)
    place.end(place.run())
    Agent.objects.filter(pk=place.agent.pk).update(state=AgentState.DRAINING)
    move_agent(actor=SYSTEM, agent_id=guest_of.agent.pk, group_id=place.group.pk)
    urgent(place, resources=ALL, image=guest_of.image.reference)
    tick(place)
    assert not Preemption.objects.exists()
    assert guest_of.fresh(guest).is_running


def test_moved_agent_cancels_preemption(place: Place) -> None:
    low, high = place.run(resources=ALL), urgent(place, resources=ALL)
    tick(place)
    move_agent(actor=SYSTEM, agent_id=place.agent.pk, group_id=make_place().group.pk)
    assert not read_preemptions(place.fresh(high).resource_group).claims
    settle_preemptions(over())
    assert place.fresh(low).is_running
    assert notices(low) == [PreemptionOutcome.SPARED]


def test_the_clock_takes_no_grace_away(place: Place) -> None:
    low = place.run(resources=ALL)
    urgent(place, resources=ALL)
    tick(place)
    hour = timedelta(hours=1)
    step = ClockJump(hour, clock.now() + hour, timedelta(seconds=10))
    shift_timestamps(step)
    enforcer.shift_timestamps(step)
    settle_preemptions(step.now)
    assert place.fresh(low).is_running
    settle_preemptions(over() + hour)
    assert place.fresh(low).status == Status.TERMINATING


def test_database_allows_one_preempting_session_per_victim(place: Place) -> None:
    low = place.run(resources=HALF)
    first, second = urgent(place), urgent(place)
    facts = {"agent": place.agent, "decided_at": clock.now(), "ends_at": over()}
    Preemption.objects.create(session=low, by=first, **facts)
    with pytest.raises(IntegrityError), transaction.atomic():
        Preemption.objects.create(session=low, by=second, **facts)
