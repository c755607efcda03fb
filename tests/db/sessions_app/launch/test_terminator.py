"""Resources of a session are released when its container is gone, not earlier."""

import threading
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import pytest
from django.core.cache import cache
from django.db import transaction

from agents.core.states import AgentState
from agents.machines import lifecycle as agent_lifecycle
from agents.runtime.port import RuntimeRefused
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from common import clock
from common.actors import SYSTEM
from sessions_app.core.states import LATE_END, REASON_SENTENCES, Reason, Status
from sessions_app.launch.launcher import launch_session
from sessions_app.launch.terminator import end_session
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession
from sessions_app.reconciler import clock_change, loop
from sessions_app.termination.service import terminate_session
from tests import factories
from tests.factories_sessions import Place, make_place
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]

LATER = timedelta(hours=1)


class FrozenRuntime(SimulatedRuntime):
    """Its containers cannot be killed while `is_frozen`."""

    is_frozen = True

    def stop_container(self, name: str, grace_s: int) -> None:
        if self.is_frozen:
            raise RuntimeRefused("tried to kill container, but did not receive an exit event")
        super().stop_container(name, grace_s)


class DeafLogRuntime(SimulatedRuntime):
    """Cannot read any log."""

    def read_log_tail(self, name, **options):  # type: ignore[no-untyped-def]
        raise RuntimeRefused("error opening log file: invalid argument")


def stop(place: Place, session: ComputeSession) -> None:
    terminate_session(actor=factories.actor_for(place.owner), session_id=session.pk)
    end_session(session.pk)


def test_allocation_is_kept_while_the_container_cannot_be_killed(place: Place) -> None:
    runtime = place.replace_runtime(lambda images: FrozenRuntime(name=place.agent.name, images=images))
    session = place.run()
    held = place.occupied()
    stop(place, session)

    with clock.frozen_at(clock.now() + LATER):
        loop.enforce_deadlines(clock.now())
        late = place.fresh(session)
        assert (late.status, late.status_message) == (Status.TERMINATING, LATE_END)
        assert late.deadline_at > clock.now()
        assert place.occupied() == held != {}

    runtime.is_frozen = False  # type: ignore[attr-defined]
    end_session(session.pk)
    ended = place.fresh(session)
    assert (ended.status, ended.status_message) == (
        Status.TERMINATED,
        REASON_SENTENCES[Reason.USER_REQUESTED],
    )
    assert place.occupied() == {}


def test_an_end_on_a_machine_that_was_retired_is_over_at_its_deadline(place: Place) -> None:
    place.replace_runtime(lambda images: FrozenRuntime(name=place.agent.name, images=images))
    session = place.run()
    stop(place, session)
    agent_lifecycle.transition(place.agent.pk, to=AgentState.RETIRED, actor=SYSTEM)
    with clock.frozen_at(clock.now() + LATER):
        loop.enforce_deadlines(clock.now())
    assert place.fresh(session).status == Status.TERMINATED


def test_an_engine_that_took_the_address_does_not_end_a_session_by_not_knowing_it(place: Place) -> None:
    session = place.run()
    own = place.runtime
    adopt_runtime(place.agent.address, SimulatedRuntime(name="another", images=[place.image.reference]))
    stop(place, session)
    assert place.fresh(session).status == Status.TERMINATING

    adopt_runtime(place.agent.address, own)
    end_session(session.pk)
    assert place.fresh(session).status == Status.TERMINATED
    assert own.list_containers({}) == []


def test_a_log_that_cannot_be_read_keeps_no_session_from_its_end(place: Place) -> None:
    place.replace_runtime(lambda images: DeafLogRuntime(name=place.agent.name, images=images))
    session = place.run()
    stop(place, session)
    assert place.fresh(session).status == Status.TERMINATED


def test_a_late_end_is_tried_less_often(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.replace_runtime(lambda images: FrozenRuntime(name=place.agent.name, images=images))
    session = place.run()
    stop(place, session)
    waits: list[int] = []
    monkeypatch.setattr(loop.cache, "add", lambda key, value, timeout: waits.append(timeout))
    for age_s in (10, 90):
        with clock.frozen_at(clock.now() + timedelta(seconds=age_s)):
            loop.restart_stale_work()
    assert waits == [5, loop.LATE_RETRY_S]


def test_concurrent_terminators_end_a_session_once(place: Place) -> None:
    session = place.run()
    stop(place, session)
    transitions.finish(session.pk, actor=SYSTEM)
    steps = session.transitions.filter(to_status=Status.TERMINATED)
    assert steps.count() == 1


# The clock


@pytest.mark.parametrize("step", [timedelta(hours=1), timedelta(hours=-1)], ids=["ahead", "back"])
def test_deadlines_move_along_when_the_clock_is_set(
    place: Place, step: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = [place.place(), place.run(), place.enqueue(resources={"cpu": 8, "mem": "1g"})]
    before = {session.pk: place.fresh(session).deadline_at - clock.now() for session in sessions}
    clock_change.handle_clock_jump()
    begun = clock.clock_offset()

    monkeypatch.setattr(clock, "clock_offset", lambda: begun + step.total_seconds())
    with clock.frozen_at(clock.now() + timedelta(minutes=1) + step):
        loop.reconcile_sessions()
        loop.reconcile_sessions()
        for session in sessions:
            fresh = place.fresh(session)
            assert Status(fresh.status).is_terminal is False
            left = fresh.deadline_at - clock.now()
            assert abs(before[session.pk] - timedelta(minutes=1) - left) < timedelta(seconds=20)


def test_a_clock_that_is_set_during_a_round_ends_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, now = place.place(), clock.now
    set_clock = partial(monkeypatch.setattr, clock, "now", lambda: now() + timedelta(hours=3))
    monkeypatch.setattr(loop, "reconcile_agents", set_clock)
    loop.reconcile_sessions()
    assert place.fresh(session).status == Status.SCHEDULED


def test_a_launch_that_goes_on_while_it_is_found_late_is_left_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = place.place()

    def launched_meanwhile() -> AbstractContextManager[None]:
        launch_session(session.pk)
        return transaction.atomic()

    monkeypatch.setattr(loop, "transaction", SimpleNamespace(atomic=launched_meanwhile))
    loop.enforce_deadlines(clock.now() + timedelta(seconds=3601))
    assert place.fresh(session).status == Status.RUNNING


def test_lost_work_is_found_after_the_clock_was_set_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = place.place()
    clock_change.handle_clock_jump()
    begun = clock.clock_offset()
    asked: list[str] = []
    monkeypatch.setattr(loop, "enqueue_on_commit", lambda task, session_id: asked.append(session_id))
    monkeypatch.setattr(clock, "clock_offset", lambda: begun - 3600)
    with clock.frozen_at(clock.now() - timedelta(hours=1) + timedelta(seconds=30)):
        loop.reconcile_sessions()
        loop.reconcile_sessions()
    assert asked == [str(session.pk)]


def test_what_was_asked_before_the_clock_was_set_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_change.handle_clock_jump()
    begun = clock.clock_offset()
    assert cache.add("tick-asked:1", 1, timeout=5)
    cache.set("kept", 1)
    monkeypatch.setattr(clock, "clock_offset", lambda: begun - 3600)
    clock_change.handle_clock_jump()
    assert cache.add("tick-asked:1", 1, timeout=5)
    assert cache.get("kept") == 1


def test_the_time_server_s_small_corrections_are_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock.clock_offset()
    assert clock.jump_since(None) is None
    monkeypatch.setattr(clock, "clock_offset", lambda: now + 1)
    assert clock.jump_since(now) == timedelta(0)


# Engines that hang


def test_a_machine_that_hangs_does_not_hold_up_the_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    asked = threading.Event()

    class HangingRuntime(SimulatedRuntime):
        lists = 0

        def list_containers(self, labels):  # type: ignore[no-untyped-def]
            self.lists += 1
            asked.set()
            assert go.wait(60)
            return super().list_containers(labels)

    monkeypatch.setattr(loop, "ROUND_S", 0.2)
    other = make_place()
    hanging = place.replace_runtime(lambda images: HangingRuntime(name=place.agent.name, images=images))
    session = other.run(type="batch", command="true")
    other.runtime.finish(session.kernels.get().container_name)
    try:
        loop.reconcile_sessions()
        assert asked.is_set()
        wait_until(lambda: other.fresh(session).status == Status.TERMINATING, deadline_s=30)
        loop.reconcile_sessions()
        assert hanging.lists == 1  # type: ignore[attr-defined]
    finally:
        go.set()
        wait_until(lambda: loop._agent_pool.is_idle, deadline_s=30)
