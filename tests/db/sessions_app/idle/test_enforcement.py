"""Idle timeouts and lifetimes: warnings, ends, and exemptions."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.db import transaction

from agents.core.states import AgentState
from agents.models import Agent, ResourceGroup
from common import clock
from common.clock import ClockJump
from common.errors import Conflict, LimitExceeded, NotFound
from common.models import AuditEntry
from portal.models import Notification
from portal.notifications.session_warning import notify_of_warnings
from sessions_app.core.idle_rules import Cause
from sessions_app.core.states import Reason, Status
from sessions_app.gateway.activity.recorder import write_report
from sessions_app.idle import enforcer
from sessions_app.idle.extension import extend_session
from sessions_app.idle.facts import find_next_end
from sessions_app.models import (
    ComputeSession,
    GatewayReport,
    Interaction,
    KernelMetric,
    SessionIdle,
    SessionWarning,
)
from sessions_app.reconciler.loop import enforce_deadlines
from tests.factories import actor_for, make_user
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place, measure_nothing_used

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)


@pytest.fixture
def began() -> datetime:
    """Now, as the judge has looked and a gateway has reported for a while."""
    now = clock.now()
    with clock.frozen_at(now - timedelta(seconds=20)):
        look()
    return now


@contextmanager
def at(instant: datetime) -> Iterator[None]:
    with clock.frozen_at(instant):
        yield


def look(*, is_measured: bool = True) -> None:
    """One round with a gateway that reports. `is_measured`: whatever nothing else is said of computes nothing."""
    write_report("web", {}, 0.0)
    if is_measured:
        measure_nothing_used()
    enforcer.enforce_idle_limits(clock.now())


def watch(since: datetime, until: datetime, *, is_measured: bool = True) -> None:
    """Rounds of a portal that runs from then to then."""
    moment = since
    while moment <= until:
        with at(moment):
            look(is_measured=is_measured)
        moment += timedelta(seconds=55)


def work_in(session: ComputeSession, when: datetime) -> None:
    with at(when):
        write_report("web", {session.pk: (5.0, Interaction.TERMINAL)}, 5.0)


def group_has(place: Place, **changes: object) -> None:
    ResourceGroup.objects.filter(pk=place.group.pk).update(**changes)


def warnings_of(session: ComputeSession) -> list[tuple[str, int, bool]]:
    rows = SessionWarning.objects.filter(session=session).order_by("warned_at")
    return [(row.cause, row.mark_s, row.told_at is not None) for row in rows]


def test_idle_session_is_warned_three_times_and_ended(place: Place, began: datetime) -> None:
    group_has(place, max_idle_s=3600)
    session = place.run()
    watch(began, began + timedelta(minutes=59))
    assert place.fresh(session).is_running
    assert warnings_of(session) == [("interaction", mark, True) for mark in (1800, 600, 300)]
    told = Notification.objects.filter(person=place.owner, code="unused_ends_soon").order_by("created_at")
    minutes = [one.arguments["minutes"] for one in told]
    assert [round(number, -1) if number > 6 else 5 for number in minutes] == [30, 10, 5]

    watch(began + timedelta(minutes=59), began + timedelta(minutes=63))
    ended = place.fresh(session)
    assert (ended.status, ended.status_reason) == (Status.TERMINATING, Reason.UNUSED)
    assert ended.outcome == Status.TERMINATED


def test_active_session_is_not_ended(place: Place, began: datetime) -> None:
    group_has(place, max_idle_s=600)
    session = place.run()
    for turn in range(3):
        watch(began + turn * 8 * MINUTE, began + (turn + 1) * 8 * MINUTE)
        work_in(session, began + (turn + 1) * 8 * MINUTE)
    assert place.fresh(session).is_running
    found = SessionIdle.objects.get(session=session)
    assert (found.interacted_at, found.interaction) == (began + 24 * MINUTE, "terminal")


def test_an_older_interaction_never_replaces_a_newer_one(place: Place, began: datetime) -> None:
    session = place.run()
    work_in(session, began + 9 * MINUTE)
    work_in(session, began + 3 * MINUTE)
    assert SessionIdle.objects.get(session=session).interacted_at == began + 9 * MINUTE


def test_activity_is_recorded_for_running_sessions_only(place: Place, began: datetime) -> None:
    waiting = place.enqueue()
    work_in(waiting, began)
    assert not SessionIdle.objects.filter(session=waiting).exists()


@pytest.mark.parametrize("level", ["domain", "project", "owner"])
def test_tightest_level_sets_the_timeout(place: Place, began: datetime, level: str) -> None:
    group_has(place, max_idle_s=7200)
    targets = {"domain": place.project.domain, "project": place.project, "owner": place.owner}
    for name, target in targets.items():
        limit(target, max_idle_s=600 if name == level else 7200)
    session = place.run()
    watch(began, began)
    assert SessionIdle.objects.get(session=session).max_idle_s == 600


def test_batch_sessions_are_not_expected_to_be_worked_in(place: Place, began: datetime) -> None:
    group_has(place, max_idle_s=600)
    session = place.run(type="batch", command="sleep 1d")
    watch(began, began + 15 * MINUTE)
    assert (place.fresh(session).is_running, warnings_of(session)) == (True, [])


def test_a_portal_that_was_off_for_a_day_ends_nothing_without_a_warning_and_a_grace(
    place: Place, began: datetime
) -> None:
    group_has(place, max_idle_s=3600)
    limit(place.owner, max_lifetime_s=4 * 3600)
    session = place.run()
    watch(began, began + 10 * MINUTE)
    tomorrow = began + timedelta(days=1)
    watch(tomorrow, tomorrow + 4 * MINUTE)
    assert place.fresh(session).is_running
    assert warnings_of(session) == [("lifetime", 300, True)]
    watch(tomorrow + 4 * MINUTE, tomorrow + 6 * MINUTE)
    assert place.fresh(session).status_reason == Reason.LIFETIME_OVER


def test_sessions_without_gateway_reports_are_not_idle(place: Place, began: datetime) -> None:
    group_has(place, max_idle_s=600)
    session = place.run()
    watch(began, began + 2 * MINUTE)
    for minute in range(3, 30):
        with at(began + minute * MINUTE):
            enforcer.enforce_idle_limits(clock.now())
    assert place.fresh(session).is_running
    assert find_next_end(place.fresh(session)).gap == "no gateway reports"  # type: ignore[union-attr]
    watch(began + 30 * MINUTE, began + 33 * MINUTE)
    assert (place.fresh(session).is_running, warnings_of(session)) == (True, [])


def test_a_lost_machine_is_no_proof_of_idleness(place: Place, began: datetime) -> None:
    group_has(place, max_idle_s=600)
    session = place.run()
    watch(began, began + 2 * MINUTE)
    Agent.objects.filter(pk=place.agent.pk).update(state=AgentState.LOST)
    watch(began + 3 * MINUTE, began + 30 * MINUTE)
    assert place.fresh(session).is_running
    Agent.objects.filter(pk=place.agent.pk).update(state=AgentState.CONNECTED)
    watch(began + 30 * MINUTE, began + 34 * MINUTE)
    assert (place.fresh(session).is_running, warnings_of(session)) == (True, [])


def test_session_is_not_ended_without_a_delivered_warning(
    place: Place, began: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    group_has(place, max_idle_s=600)
    session = place.run()
    with monkeypatch.context() as patched:
        patched.setattr("portal.notifications.subscribers.notify_of_warnings", lambda _session_id: None)
        watch(began, began + 60 * MINUTE)
    assert (place.fresh(session).is_running, warnings_of(session)) == (True, [("interaction", 300, False)])
    with at(began + 60 * MINUTE):
        notify_of_warnings()
        notify_of_warnings()
    assert Notification.objects.filter(person=place.owner).count() == 1
    watch(began + 60 * MINUTE, began + 64 * MINUTE)
    assert place.fresh(session).is_running
    watch(began + 64 * MINUTE, began + 66 * MINUTE)
    assert place.fresh(session).status_reason == Reason.UNUSED


def test_activity_at_the_last_moment_saves_the_session(place: Place, began: datetime) -> None:
    group_has(place, max_idle_s=600)
    session = place.run()
    watch(began, began + 9 * MINUTE)
    end = SessionWarning.objects.get(session=session).ends_at
    work_in(session, end - timedelta(seconds=1))
    assert not enforcer.end_if_due(session.pk, Cause.INTERACTION, end + MINUTE)
    assert place.fresh(session).is_running


def test_end_waits_for_a_concurrent_activity_report(place: Place, began: datetime) -> None:
    """Both lock the row: whoever comes second sees what the first wrote."""
    group_has(place, max_idle_s=600)
    session = place.run()
    watch(began, began + 9 * MINUTE)
    with transaction.atomic():
        work_in(session, began + 9 * MINUTE)
        row = SessionIdle.objects.select_for_update().get(session=session)
    assert row.interacted_at == began + 9 * MINUTE
    assert not enforcer.end_if_due(session.pk, Cause.INTERACTION, began + 11 * MINUTE)


def test_a_clock_that_jumps_ends_nothing(place: Place, began: datetime) -> None:
    group_has(place, max_idle_s=3600)
    session = place.run()
    watch(began, began + 40 * MINUTE)
    step = timedelta(hours=1)
    before = find_next_end(place.fresh(session))
    with at(began + 40 * MINUTE + step):
        with transaction.atomic():
            enforcer.shift_timestamps(ClockJump(step, clock.now(), timedelta(seconds=10)))
    after = find_next_end(place.fresh(session))
    assert before is not None
    assert after is not None
    assert after.ends_at == before.ends_at + step  # type: ignore[operator]
    assert after.is_near == before.is_near is True
    watch(began + 41 * MINUTE + step, began + 54 * MINUTE + step)
    assert place.fresh(session).is_running


def test_lifetime_of_the_group_ends_sessions_after_a_warning(place: Place, began: datetime) -> None:
    limit(place.owner, max_lifetime_s=7200)
    group_has(place, max_lifetime_s=3600)
    place.group.refresh_from_db()
    session = place.run()
    assert session.lifetime_s == 3600
    with at(session.deadline_at + MINUTE):
        enforce_deadlines(clock.now())
    assert place.fresh(session).is_running
    watch(began, session.deadline_at + 3 * MINUTE)
    assert place.fresh(session).status_reason == Reason.LIFETIME_OVER
    assert [mark for _cause, mark, _told in warnings_of(session)] == [1800, 600, 300]


def test_a_muted_warning_still_stands_on_the_page(place: Place, began: datetime) -> None:
    from portal.notifications.service import choose_notifications

    choose_notifications(actor=actor_for(place.owner), muted=["ends_soon"])
    group_has(place, max_idle_s=600)
    session = place.run()
    watch(began, began + 6 * MINUTE)
    assert not Notification.objects.filter(person=place.owner).exists()
    assert find_next_end(place.fresh(session)).is_near  # type: ignore[union-attr]


def test_extending_puts_the_next_end_off_and_is_counted(place: Place, began: datetime) -> None:
    group_has(place, max_idle_s=600, max_extensions=2, extension_s=1800)
    limit(place.owner, max_extension_s=1200)
    session = place.run()
    watch(began, began + 6 * MINUTE)
    end = find_next_end(place.fresh(session)).ends_at  # type: ignore[union-attr]
    with at(began + 6 * MINUTE):
        extend_session(actor=actor_for(place.owner), session_id=session.pk)
    outlook = find_next_end(place.fresh(session))
    assert outlook is not None
    assert not outlook.is_near
    assert abs(outlook.ends_at - end - timedelta(seconds=1200)) < MINUTE  # type: ignore[operator]
    watch(began + 6 * MINUTE, began + 29 * MINUTE)
    assert place.fresh(session).is_running
    assert warnings_of(session) == [("interaction", 300, True)]  # of this end; the other was moved

    with at(began + 29 * MINUTE):
        extend_session(actor=actor_for(place.owner), session_id=session.pk)
        with pytest.raises(LimitExceeded, match="was extended 2 times"):
            extend_session(actor=actor_for(place.owner), session_id=session.pk)
    assert AuditEntry.objects.filter(action="sessions.extend_session").count() == 2


def test_a_lifetime_is_extended_by_its_deadline(place: Place) -> None:
    limit(place.owner, max_lifetime_s=7200)
    session = place.run()
    extend_session(actor=actor_for(place.owner), session_id=session.pk)
    assert place.fresh(session).deadline_at == session.deadline_at + timedelta(hours=1)


def test_its_own_time_limit_is_extended_too(place: Place) -> None:
    session = place.run(type="batch", command="true", timeout_s=600)
    extend_session(actor=actor_for(place.owner), session_id=session.pk)
    assert place.fresh(session).deadline_at == session.deadline_at + timedelta(hours=1)


def test_extension_requires_permission(place: Place) -> None:
    session = place.run()
    with pytest.raises(NotFound):
        extend_session(actor=actor_for(make_user()), session_id=session.pk)
    limit(place.project, max_extensions=0)
    with pytest.raises(LimitExceeded, match="cannot be extended"):
        extend_session(actor=actor_for(place.owner), session_id=session.pk)
    ended = place.end(place.run())
    with pytest.raises(Conflict):
        extend_session(actor=actor_for(place.owner), session_id=ended.pk)


def use(
    session: ComputeSession, since: datetime, minutes: int, *, cpu_milli: int | None, mem_bytes: int = 2**20
) -> None:
    kernel = session.kernels.get()
    start = since.replace(second=0, microsecond=0)
    KernelMetric.objects.bulk_create(
        KernelMetric(
            kernel=kernel, span_s=60, at=start + minute * MINUTE, cpu_milli=cpu_milli, mem_bytes=mem_bytes
        )
        for minute in range(minutes)
    )


def test_a_program_that_computes_is_work(place: Place, began: datetime) -> None:
    group_has(place, max_idle_s=600)
    session = place.run()
    use(session, began, 15, cpu_milli=150)
    watch(began, began + 14 * MINUTE)
    assert SessionIdle.objects.get(session=session).interaction == "program"
    watch(began + 14 * MINUTE, began + 19 * MINUTE)
    assert place.fresh(session).is_running


@pytest.mark.parametrize(("cpu_milli", "is_work"), [(98, True), (50, True), (30, False)])
def test_a_small_session_is_at_work_that_uses_half_of_what_it_holds(
    place: Place, began: datetime, cpu_milli: int, is_work: bool
) -> None:
    group_has(place, max_idle_s=600)
    session = place.run(resources={"cpu": 0.1, "mem": "1g"})
    use(session, began, 15, cpu_milli=cpu_milli)
    watch(began, began + 14 * MINUTE)
    assert place.fresh(session).is_running == is_work


def test_one_busy_core_of_many_is_work(began: datetime) -> None:
    place = make_place(cpu_milli=256_000)
    group_has(place, max_idle_s=600)
    session = place.run(resources={"cpu": 256, "mem": "1g"})
    use(session, began, 15, cpu_milli=1000)
    watch(began, began + 15 * MINUTE)
    assert SessionIdle.objects.get(session=session).interaction == "program"
    assert place.fresh(session).is_running


def end_of(place: Place, session: ComputeSession) -> datetime | None:
    outlook = find_next_end(place.fresh(session))
    return outlook.ends_at if outlook is not None else None


LITTLE = {"min_cpu_percent": 5, "use_window_s": 1200, "use_grace_s": 1200}


def test_what_uses_too_little_for_a_window_and_a_grace_ends(place: Place, began: datetime) -> None:
    group_has(place, **LITTLE)
    session = place.run()
    use(session, began, 60, cpu_milli=10)
    watch(began, began + 19 * MINUTE)
    assert SessionIdle.objects.get(session=session).low_since is None
    watch(began + 19 * MINUTE, began + 39 * MINUTE)
    assert SessionIdle.objects.get(session=session).use == {"cpu": 1, "mem": 0}
    assert [cause for cause, _mark, _told in warnings_of(session)] == ["use", "use"]
    watch(began + 39 * MINUTE, began + 42 * MINUTE)
    assert place.fresh(session).status_reason == Reason.UNDERUSED


def test_utilisation_in_the_grace_period_saves_the_session(place: Place, began: datetime) -> None:
    group_has(place, **LITTLE)
    session = place.run()
    use(session, began, 25, cpu_milli=1)
    use(session, began + 25 * MINUTE, 40, cpu_milli=200)
    watch(began, began + 60 * MINUTE)
    assert place.fresh(session).is_running


def test_removed_limit_removes_the_shown_end(place: Place, began: datetime) -> None:
    group_has(place, **LITTLE)
    session = place.run()
    use(session, began, 25, cpu_milli=1)
    watch(began, began + 22 * MINUTE)
    assert end_of(place, session) is not None
    group_has(place, min_cpu_percent=None)
    watch(began + 22 * MINUTE, began + 23 * MINUTE)
    assert end_of(place, session) is None


@pytest.mark.parametrize("is_chosen", [False, True])
def test_batch_is_exempt_unless_the_group_chose_otherwise(
    place: Place, began: datetime, is_chosen: bool
) -> None:
    group_has(place, **LITTLE, ends_idle_batch=is_chosen)
    session = place.run(type="batch", command="sleep 1d")
    use(session, began, 60, cpu_milli=1)
    watch(began, began + 45 * MINUTE)
    assert place.fresh(session).is_running is not is_chosen


def test_rounds_are_cheap_and_write_nothing_new(
    place: Place, began: datetime, django_assert_max_num_queries: object
) -> None:
    group_has(place, max_idle_s=3600)
    place.run(), place.run()
    watch(began, began + MINUTE)
    with at(began + 2 * MINUTE), django_assert_max_num_queries(16):  # type: ignore[operator]
        enforcer.enforce_idle_limits(clock.now())
    assert GatewayReport.objects.count() == 1
    assert isinstance(SessionIdle.objects.values_list("session_id", flat=True).first(), UUID)
