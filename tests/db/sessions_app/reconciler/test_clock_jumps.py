"""Clock jumps of an hour end no session early and change no remaining time.

Deadlines of states are in launch/test_terminator.py, times to start and to stop in queue/test_start_times.py and
termination/test_delayed_stop.py.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from agents.core.states import AgentState
from agents.machines.service import record_silence
from agents.models import Agent, ResourceGroup
from common import clock
from portal.notifications.session_warning import notify_of_warnings
from scheduler.tick import run_tick
from sessions_app.core.states import Reason, Status
from sessions_app.gateway.activity.recorder import write_report
from sessions_app.idle import enforcer
from sessions_app.idle.facts import find_next_end
from sessions_app.metrics import collector
from sessions_app.models import ComputeSession, KernelMetric, Preemption, SessionIdle
from sessions_app.queue.holds import release_due_starts
from sessions_app.reconciler import clock_change, loop
from tests.factories import actor_for
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_limits import limit
from tests.factories_sessions import Place, measure_nothing_used
from vfolders import trash
from vfolders.models import VFolder

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]

UNSEEN = timedelta(seconds=45)  # a round may take long
SHORTLY = timedelta(seconds=40)  # sooner than the round that finds the jump
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SOON = timedelta(seconds=20)  # as exactly as rounds of ten seconds can be

Jump = Callable[[timedelta], None]


@pytest.fixture(params=[HOUR, -HOUR], ids=["ahead", "back"])
def step(request: pytest.FixtureRequest) -> timedelta:
    found: timedelta = request.param
    return found


@pytest.fixture
def began() -> datetime:
    """Now, as the judge has looked and a gateway has reported for a while."""
    now = clock.now()
    with clock.frozen_at(now - timedelta(seconds=20)):
        look()
    return now


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Jump:
    """The reconciler finds that the clock was set by so much, at the instant that is frozen; it looked UNSEEN before."""
    begun, looked_at_s = clock.clock_offset(), clock.monotonic()
    monkeypatch.setattr(clock, "clock_offset", lambda: begun)  # two readings differ by some microseconds
    clock_change.handle_clock_jump()

    def set_by(step: timedelta) -> None:
        monkeypatch.setattr(clock, "clock_offset", lambda: begun + step.total_seconds())
        monkeypatch.setattr(clock, "monotonic", lambda: looked_at_s + UNSEEN.total_seconds())
        assert clock_change.handle_clock_jump()

    return set_by


class Killed(BaseException):
    """Like SIGKILL, as far as Python can: nothing between here and the top handles it."""


def die(*_: object) -> None:
    raise Killed


def at(instant: datetime) -> AbstractContextManager[None]:
    return clock.frozen_at(instant)


def look() -> None:
    """One round with a gateway that reports."""
    write_report("web", {}, 0.0)
    measure_nothing_used()
    enforcer.enforce_idle_limits(clock.now())


def watch(since: datetime, until: datetime) -> None:
    moment = since
    while moment <= until:
        with at(moment):
            look()
        moment += timedelta(seconds=55)


def group_has(place: Place, **changes: object) -> None:
    ResourceGroup.objects.filter(pk=place.group.pk).update(**changes)


def left_of(place: Place, session: ComputeSession, now: datetime) -> timedelta:
    outlook = find_next_end(place.fresh(session))
    assert outlook is not None
    assert outlook.ends_at is not None
    return outlook.ends_at - now


def use(session: ComputeSession, since: datetime, minutes: int, *, cpu_milli: int) -> None:
    start = clock.start_of(since, collector.MINUTE_S)
    kernel = session.kernels.get()
    KernelMetric.objects.bulk_create(
        KernelMetric(kernel=kernel, span_s=60, at=start + minute * MINUTE, cpu_milli=cpu_milli, mem_bytes=0)
        for minute in range(minutes)
    )


def test_warned_idle_session_keeps_its_remaining_time(
    place: Place, began: datetime, step: timedelta, jump: Jump
) -> None:
    group_has(place, max_idle_s=3600)
    session = place.run()
    watch(began, began + 40 * MINUTE)
    left = left_of(place, session, began + 40 * MINUTE)
    moved = began + 40 * MINUTE + step
    with at(moved):
        jump(step)
        look()
    assert abs(left_of(place, session, moved) - left) < SOON
    watch(moved, moved + 15 * MINUTE)
    assert place.fresh(session).is_running
    watch(moved + 15 * MINUTE, moved + 24 * MINUTE)
    assert place.fresh(session).status_reason == Reason.UNUSED


def test_a_lifetime_is_as_long_as_it_was(place: Place, began: datetime, step: timedelta, jump: Jump) -> None:
    limit(place.owner, max_lifetime_s=7200)
    session = place.run()
    watch(began + 100 * MINUTE, began + 110 * MINUTE)
    left = left_of(place, session, began + 110 * MINUTE)
    moved = began + 110 * MINUTE + step
    with at(moved):
        jump(step)
        look()
        loop.enforce_deadlines(clock.now())
    assert abs(left_of(place, session, moved) - left) < SOON
    watch(moved, moved + 8 * MINUTE)
    assert place.fresh(session).is_running
    watch(moved + 8 * MINUTE, moved + 13 * MINUTE)
    assert place.fresh(session).status_reason == Reason.LIFETIME_OVER


def test_measurements_before_the_jump_do_not_count_after_activity(
    place: Place, began: datetime, step: timedelta, jump: Jump
) -> None:
    """Set back, the minutes to come have rows already: of a time in which little was done."""
    group_has(place, min_cpu_percent=5, use_window_s=600, use_grace_s=600)
    session = place.run()
    use(session, began, 61, cpu_milli=0)
    watch(began, began + 15 * MINUTE)
    assert SessionIdle.objects.get(session=session).low_since is not None
    moved = began + 15 * MINUTE + step
    with at(moved):
        jump(step)
    assert not KernelMetric.objects.filter(at__gt=moved).exists()
    use(session, moved, 60, cpu_milli=900)
    watch(moved, moved + 58 * MINUTE)
    assert place.fresh(session).is_running
    assert SessionIdle.objects.get(session=session).low_since is None


def test_preemption_notice_keeps_its_length(place: Place, step: timedelta, jump: Jump) -> None:
    group_has(place, preemptible_priority=0, preemption_after_s=0, preemption_grace_s=600)
    low = place.run(resources={"cpu": 8, "mem": "1g"})
    high = place.enqueue(resources={"cpu": 8, "mem": "1g"})
    ComputeSession.objects.filter(pk=high.pk).update(priority=10)
    run_tick(place.group.pk)
    notify_of_warnings()
    now = clock.now()
    with at(now + MINUTE + step):
        jump(step)
        loop.settle_preemptions(clock.now())
    with at(now + 8 * MINUTE + step):
        loop.settle_preemptions(clock.now())
        assert place.fresh(low).is_running
    with at(now + 11 * MINUTE + step):
        loop.settle_preemptions(clock.now())
        assert place.fresh(low).status_reason == Reason.PREEMPTED


def test_maximum_wait_keeps_its_length(place: Place, step: timedelta, jump: Jump) -> None:
    place.run(resources={"cpu": 8, "mem": "1g"})
    session = place.enqueue(pending_timeout_s=600)
    now = clock.now()
    with at(now + 2 * MINUTE + step):
        jump(step)
    with at(now + 9 * MINUTE + step):
        loop.enforce_deadlines(clock.now())
        assert place.fresh(session).status == Status.PENDING
    with at(now + 11 * MINUTE + step):
        loop.enforce_deadlines(clock.now())
        assert place.fresh(session).status_reason == Reason.PENDING_TIMEOUT


def test_a_machine_is_not_lost_and_what_was_lost_is_not_given_up(
    place: Place, step: timedelta, jump: Jump
) -> None:
    session, now = place.run(), clock.now()
    with at(now + step):
        jump(step)
        assert record_silence(place.agent.pk, "silent").state == AgentState.CONNECTED
    Agent.objects.filter(pk=place.agent.pk).update(state=AgentState.LOST, state_changed_at=now + step)
    with at(now + 2 * step):
        jump(2 * step)
        loop.end_sessions_of_lost_agents(clock.now())
    assert place.fresh(session).is_running


def test_interrupted_shift_changes_nothing_and_the_next_round_shifts_all(
    place: Place, step: timedelta, jump: Jump, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.run(resources={"cpu": 8, "mem": "1g"})
    session, now = place.enqueue(pending_timeout_s=600), clock.now()
    due = place.fresh(session).deadline_at
    with monkeypatch.context() as patched, at(now + step):
        patched.setattr(clock_change.delivery, "shift_timestamps", die)
        with pytest.raises(Killed):
            jump(step)
        assert place.fresh(session).deadline_at == due
    with at(now + step):
        assert clock_change.handle_clock_jump()
        assert not clock_change.handle_clock_jump()
    assert place.fresh(session).deadline_at == due + step


def test_a_notice_given_before_the_round_that_finds_the_jump_leaves_the_whole_grace(
    place: Place, step: timedelta, jump: Jump
) -> None:
    group_has(place, preemptible_priority=0, preemption_after_s=0, preemption_grace_s=600)
    low = place.run(resources={"cpu": 8, "mem": "1g"})
    since = clock.now() - 2 * HOUR
    ComputeSession.objects.filter(pk=low.pk).update(status_changed_at=since, started_at=since)
    high = place.enqueue(resources={"cpu": 8, "mem": "1g"})
    ComputeSession.objects.filter(pk=high.pk).update(priority=10)
    now = clock.now() + step
    with at(now):
        run_tick(place.group.pk)
        notify_of_warnings()
    with at(now + SHORTLY):
        jump(step)
        loop.settle_preemptions(clock.now())
    with at(now + 9 * MINUTE):
        loop.settle_preemptions(clock.now())
        assert place.fresh(low).is_running
        run_tick(place.group.pk)  # nobody else has to leave
    with at(now + 11 * MINUTE):
        loop.settle_preemptions(clock.now())
        assert place.fresh(low).status_reason == Reason.PREEMPTED


def test_maximum_wait_of_sessions_released_before_the_round_keeps_its_length(
    place: Place, step: timedelta, jump: Jump
) -> None:
    place.run(resources={"cpu": 8, "mem": "1g"})
    begun = clock.now()
    session = place.enqueue(pending_timeout_s=600, start_at=(begun + 10 * MINUTE).isoformat())
    now = begun + 11 * MINUTE + step
    ComputeSession.objects.filter(pk=session.pk).update(start_at=now - MINUTE)
    with at(now):
        release_due_starts()
    with at(now + SHORTLY):
        jump(step)
    with at(now + 9 * MINUTE):
        loop.enforce_deadlines(clock.now())
        assert place.fresh(session).status == Status.PENDING
    with at(now + 11 * MINUTE):
        loop.enforce_deadlines(clock.now())
        assert place.fresh(session).status_reason == Reason.PENDING_TIMEOUT


def test_minimum_run_time_before_preemption_keeps_its_length(
    place: Place, step: timedelta, jump: Jump
) -> None:
    group_has(place, preemptible_priority=0, preemption_after_s=600, preemption_grace_s=600)
    low = place.run(resources={"cpu": 8, "mem": "1g"})
    high = place.enqueue(resources={"cpu": 8, "mem": "1g"})
    ComputeSession.objects.filter(pk=high.pk).update(priority=10)
    now = clock.now() + MINUTE + step
    with at(now):
        jump(step)
        run_tick(place.group.pk)
        assert not Preemption.objects.filter(session=low).exists()
    with at(now + 10 * MINUTE):
        run_tick(place.group.pk)
        assert Preemption.objects.filter(session=low).exists()


def test_what_begins_before_the_round_that_finds_the_jump_has_all_its_time(
    place: Place, step: timedelta, jump: Jump
) -> None:
    now = clock.now() + step
    with at(now):
        session = place.run(type="batch", command="true", timeout_s=600)
    with at(now + SHORTLY):
        jump(step)
    assert place.fresh(session).deadline_at == now + 10 * MINUTE


def test_earlier_sessions_stay_ahead_of_those_after_the_jump(
    place: Place, step: timedelta, jump: Jump
) -> None:
    place.run(resources={"cpu": 8, "mem": "1g"})
    first = place.enqueue(resources={"cpu": 8, "mem": "1g"})
    now = clock.now() + step
    with at(now):
        second = place.enqueue(resources={"cpu": 8, "mem": "1g"})
    with at(now + SHORTLY):
        jump(step)
        run_tick(place.group.pk)
    assert [place.fresh(each).queue_position for each in (first, second)] == [1, 2]


def test_folders_stay_in_the_trash_as_long_as_they_did(
    place: Place, step: timedelta, jump: Jump, tmp_path: Path
) -> None:
    make_storage_host(tmp_path)
    folder = make_folder(place.owner)
    trashed = trash.trash_folder(actor=actor_for(place.owner), folder_id=folder.pk)
    VFolder.objects.update(trashed_at=trashed.trashed_at - 3 * HOUR, expires_at=clock.now() + 30 * MINUTE)
    moved = clock.now() + step
    with at(moved):
        jump(step)
        folder.refresh_from_db()
        assert abs(folder.expires_at - moved - 30 * MINUTE) < SOON
        assert trash.delete_expired() == 0
    with at(moved + 31 * MINUTE):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(clock, "clock_offset", lambda: 0.0)  # jumped, and not shifted yet
            assert trash.delete_expired() == 0
        assert trash.delete_expired() == 1


def test_on_another_machine_than_before_the_clock_is_looked_at_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, begun = place.run(), clock.clock_offset()
    due = place.fresh(session).deadline_at
    clock_change.handle_clock_jump()
    monkeypatch.setattr(clock, "machine_id", lambda: "another")
    monkeypatch.setattr(clock, "clock_offset", lambda: begun + 3600)
    assert not clock_change.handle_clock_jump()
    assert place.fresh(session).deadline_at == due


def test_small_corrections_add_up_to_a_step(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    clock_change.handle_clock_jump()
    begun = clock.clock_offset()
    for seconds in (2, 4):
        monkeypatch.setattr(clock, "clock_offset", lambda seconds=seconds: begun + seconds)
        assert not clock_change.handle_clock_jump()
    monkeypatch.setattr(clock, "clock_offset", lambda: begun + 6)
    assert clock_change.handle_clock_jump()
