"""Minimum utilisation of policies and resource groups: warnings and ends."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from accounts.credentials.keypairs import create_keypair
from accounts.policies.service import LimitedObject, update_policy
from common import clock
from common.actors import SYSTEM, ActorKind
from common.clock import ClockJump
from portal.models import Notification
from scheduler.tick import run_tick
from sessions_app.admission.service import enqueue_session
from sessions_app.core.idle_rules import Cause, ResourceUtilization
from sessions_app.core.request import parse_request
from sessions_app.core.states import Reason
from sessions_app.idle import enforcer
from sessions_app.idle.extension import extend_session
from sessions_app.idle.facts import find_next_end
from sessions_app.launch.launcher import launch_session
from sessions_app.models import ComputeSession, IdleWatch, KernelMetric, SessionIdle
from tests.db.sessions_app.idle.test_enforcement import (
    MINUTE,
    at,
    began,
    end_of,
    group_has,
    use,
    warnings_of,
    watch,
)
from tests.factories import actor_for
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place

__all__ = ("began",)
pytestmark = pytest.mark.django_db(transaction=True)

LITTLE = {"min_cpu_percent": 30, "use_window_s": 1200, "use_grace_s": 1200}
STATEMENTS = ("SELECT", "INSERT", "UPDATE", "\n")
SHORT = {"use_window_s": 1200, "use_grace_s": 1200}


def known_of(session: ComputeSession) -> SessionIdle:
    return SessionIdle.objects.get(session=session)


def test_what_uses_less_than_a_policy_wants_is_warned_and_ends(place: Place, began: datetime) -> None:
    limit(place.owner, **LITTLE)
    session = place.run()
    use(session, began, 60, cpu_milli=200)
    watch(began, began + 19 * MINUTE)
    assert known_of(session).low_since is None
    watch(began + 19 * MINUTE, began + 39 * MINUTE)
    assert [cause for cause, _mark, _told in warnings_of(session)] == ["use", "use"]
    told = Notification.objects.filter(person=place.owner, code="underused_ends_soon").first()
    assert told is not None
    assert told.arguments["low"] == [["cpu", 20, 30]]
    watch(began + 39 * MINUTE, began + 42 * MINUTE)
    assert place.fresh(session).status_reason == Reason.UNDERUSED


@pytest.mark.parametrize("cpu_milli", [300, None])
def test_what_uses_as_much_or_was_not_measured_goes_on(
    place: Place, began: datetime, cpu_milli: int | None
) -> None:
    limit(place.owner, **LITTLE)
    session = place.run()
    use(session, began, 60, cpu_milli=cpu_milli)
    watch(began, began + 50 * MINUTE)
    assert (place.fresh(session).is_running, warnings_of(session)) == (True, [])
    [judged] = find_next_end(place.fresh(session)).use  # type: ignore[union-attr]
    assert judged == ResourceUtilization("cpu", cpu_milli and 30, 30)


def test_that_a_group_wants_all_to_be_low_loosens_no_policy(place: Place, began: datetime) -> None:
    """Its memory is used as the group wants it, for the group wants next to nothing."""
    group_has(place, min_cpu_percent=5, min_mem_percent=1, use_rule="all", **SHORT)
    limit(place.owner, min_cpu_percent=30)
    session = place.run(resources={"cpu": 1, "mem": "64m"})
    use(session, began, 60, cpu_milli=200)
    watch(began, began + 21 * MINUTE)
    assert known_of(session).use == {"cpu": 20, "mem": 2}
    assert end_of(place, session) is not None
    assert find_next_end(place.fresh(session)).use == (ResourceUtilization("cpu", 20, 30),)  # type: ignore[union-attr]


@pytest.mark.parametrize(("mem_percent", "ends"), [(50, False), (1, True)])
def test_a_policy_may_want_that_all_of_its_thresholds_are_missed(
    place: Place, began: datetime, mem_percent: int, ends: bool
) -> None:
    limit(place.owner, **LITTLE, min_mem_percent=10, use_rule="all")
    session = place.run()
    use(session, began, 60, cpu_milli=200, mem_bytes=session.slots["mem"] * mem_percent // 100)
    watch(began, began + 42 * MINUTE)
    assert place.fresh(session).is_running is not ends


def test_what_one_policy_wants_together_loosens_nothing_of_another(place: Place, began: datetime) -> None:
    """Nor of its group. Only what would help is told."""
    limit(place.project, min_cpu_percent=50, min_mem_percent=1, use_rule="all")
    limit(place.owner, **LITTLE)
    session = place.run()
    use(session, began, 60, cpu_milli=200, mem_bytes=session.slots["mem"] // 2)
    watch(began, began + 21 * MINUTE)
    assert end_of(place, session) is not None
    assert find_next_end(place.fresh(session)).use == (ResourceUtilization("cpu", 20, 30),)  # type: ignore[union-attr]


def test_a_limit_that_is_loosened_and_tightened_again_is_warned_of_anew(
    place: Place, began: datetime
) -> None:
    policy = limit(place.owner, max_idle_s=1200)
    session = place.run()
    watch(began, began + 16 * MINUTE)
    update_policy(actor=SYSTEM, policy_id=policy.pk, limits={"max_idle_s": 36000})
    watch(began + 16 * MINUTE, began + 40 * MINUTE)
    assert warnings_of(session) == []
    update_policy(actor=SYSTEM, policy_id=policy.pk, limits={"max_idle_s": 1200})
    watch(began + 40 * MINUTE, began + 44 * MINUTE)
    assert (place.fresh(session).is_running, warnings_of(session)) == (True, [("interaction", 300, True)])
    watch(began + 44 * MINUTE, began + 46 * MINUTE)
    assert place.fresh(session).status_reason == Reason.UNUSED


def test_changed_threshold_starts_a_full_grace_period(place: Place, began: datetime) -> None:
    policy = limit(place.owner, **LITTLE)
    session = place.run()
    use(session, began, 120, cpu_milli=0)
    watch(began, began + 39 * MINUTE)
    more = {"min_cpu_percent": None, "min_mem_percent": 50}
    update_policy(actor=SYSTEM, policy_id=policy.pk, limits=more)
    watch(began + 39 * MINUTE, began + 58 * MINUTE)
    assert place.fresh(session).is_running
    told = Notification.objects.filter(person=place.owner, code="underused_ends_soon").latest("pk")
    assert [name for name, _percent, _least in told.arguments["low"]] == ["mem"]
    watch(began + 58 * MINUTE, began + 61 * MINUTE)
    assert place.fresh(session).status_reason == Reason.UNDERUSED


def test_changed_threshold_of_the_group_starts_a_full_grace_period(place: Place, began: datetime) -> None:
    group_has(place, min_mem_percent=5, **SHORT)
    session = place.run()
    use(session, began, 120, cpu_milli=0)
    watch(began, began + 39 * MINUTE)
    assert end_of(place, session) is not None
    group_has(place, min_mem_percent=None, min_cpu_percent=50)
    watch(began + 39 * MINUTE, began + 58 * MINUTE)
    assert place.fresh(session).is_running
    watch(began + 58 * MINUTE, began + 61 * MINUTE)
    assert place.fresh(session).status_reason == Reason.UNDERUSED


def test_session_that_uses_more_of_the_notified_slot_continues(place: Place, began: datetime) -> None:
    """Though something else is low by then: over the window it was not."""
    limit(place.owner, min_cpu_percent=30, min_mem_percent=30, use_window_s=3600, use_grace_s=1200)
    session = place.run()
    kernel, start = session.kernels.get(), began.replace(second=0, microsecond=0)
    KernelMetric.objects.bulk_create(
        KernelMetric(
            kernel=kernel,
            span_s=60,
            at=start + minute * MINUTE,
            cpu_milli=0 if minute < 65 else session.slots["cpu"] * 9 // 10,
            mem_bytes=session.slots["mem"] * (9 if minute < 60 else 1) // 10,
        )
        for minute in range(120)
    )
    watch(began, began + 63 * MINUTE)
    assert known_of(session).low_since is not None
    watch(began + 63 * MINUTE, began + 85 * MINUTE)
    assert place.fresh(session).is_running


@pytest.mark.parametrize("wants_cpu", [None, 5])
def test_a_group_that_wants_no_use_says_nothing_of_window_and_grace_where_a_policy_does(
    place: Place, began: datetime, wants_cpu: int | None
) -> None:
    group_has(place, min_cpu_percent=wants_cpu, **SHORT)
    limit(place.owner, min_cpu_percent=30, use_window_s=7200, use_grace_s=3600)
    session = place.run()
    use(session, began, 240, cpu_milli=0)
    watch(began, began + 125 * MINUTE)
    assert place.fresh(session).is_running is (wants_cpu is None)
    if wants_cpu is None:
        assert abs(end_of(place, session) - began - 180 * MINUTE) < 2 * MINUTE


def test_that_a_policy_wants_little_loosens_no_group(place: Place, began: datetime) -> None:
    group_has(place, min_cpu_percent=30, **SHORT)
    limit(place.owner, min_cpu_percent=5, use_window_s=7200, use_grace_s=7200)
    session = place.run()
    use(session, began, 60, cpu_milli=200)
    watch(began, began + 42 * MINUTE)
    assert place.fresh(session).status_reason == Reason.UNDERUSED


@pytest.mark.parametrize("level", ["domain", "project", "owner", "keypair"])
def test_the_largest_threshold_and_the_shortest_times_of_all_levels_hold(
    place: Place, began: datetime, level: str
) -> None:
    group_has(place, use_window_s=3600, use_grace_s=3600)
    keypair, _token = create_keypair(actor=actor_for(place.owner), name="robot")
    program = replace(actor_for(place.owner), kind=ActorKind.TOKEN, keypair_id=keypair.pk)
    targets: dict[str, LimitedObject] = {
        "domain": place.project.domain, "project": place.project, "owner": place.owner, "keypair": keypair,
    }  # fmt: skip
    for name, target in targets.items():
        is_it = name == level
        limit(
            target,
            min_cpu_percent=30 if is_it else 10,
            use_window_s=600 if is_it else 1800,
            use_grace_s=900 if is_it else None,
        )
    session = enqueue_session(actor=program, request=parse_request(place.request()))
    run_tick(place.group.pk)
    launch_session(session.pk)
    use(session, began, 20, cpu_milli=200)
    watch(began, began + 11 * MINUTE)
    known = known_of(session)
    wanted = [("any", {"cpu": 30 if name == level else 10}) for name in targets]
    assert [(kept["rule"], kept["least"]) for kept in known.thresholds if not kept["is_group"]] == wanted
    assert known.use_grace_s == 900
    assert known.low_since is not None
    assert end_of(place, session) == known.low_since + timedelta(seconds=900)


def test_shorter_grace_is_notified_and_kept(place: Place, began: datetime) -> None:
    """It would be over: the warning and its five minutes come first."""
    group_has(place, use_window_s=600, use_grace_s=7200)
    policy = limit(place.owner, min_cpu_percent=30)
    session = place.run()
    use(session, began, 90, cpu_milli=0)
    watch(began, began + 40 * MINUTE)
    assert warnings_of(session) == []
    update_policy(actor=SYSTEM, policy_id=policy.pk, limits={"use_grace_s": 600})
    watch(began + 40 * MINUTE, began + 44 * MINUTE)
    assert (place.fresh(session).is_running, warnings_of(session)) == (True, [("use", 300, True)])
    watch(began + 44 * MINUTE, began + 46 * MINUTE)
    assert place.fresh(session).status_reason == Reason.UNDERUSED


@pytest.mark.parametrize("is_chosen", [False, True])
def test_batch_is_exempt_unless_its_group_chose_otherwise(
    place: Place, began: datetime, is_chosen: bool
) -> None:
    group_has(place, ends_idle_batch=is_chosen)
    limit(place.owner, **LITTLE)
    session = place.run(type="batch", command="sleep 1d")
    use(session, began, 60, cpu_milli=1)
    watch(began, began + 45 * MINUTE)
    assert place.fresh(session).is_running is not is_chosen


def test_no_end_and_no_use_is_told_any_more_when_a_policy_lost_its_threshold(
    place: Place, began: datetime
) -> None:
    policy = limit(place.owner, **LITTLE)
    low, unmeasured = place.run(), place.run()
    use(low, began, 25, cpu_milli=1)
    watch(began, began + 22 * MINUTE, is_measured=False)
    assert end_of(place, low) is not None
    assert [judged.percent for judged in find_next_end(place.fresh(unmeasured)).use] == [None]  # type: ignore[union-attr]
    update_policy(actor=SYSTEM, policy_id=policy.pk, limits={"min_cpu_percent": None})
    watch(began + 22 * MINUTE, began + 23 * MINUTE)
    for session in (low, unmeasured):
        outlook = find_next_end(place.fresh(session))
        assert outlook is not None
        assert (outlook.ends_at, outlook.use) == (None, ())
    assert not enforcer.end_if_due(low.pk, Cause.USE, began + 60 * MINUTE)


def test_unlimited_session_is_not_checked(place: Place, began: datetime) -> None:
    policy = limit(place.owner, **LITTLE)
    place.run()
    watch(began, began)
    assert len(list(enforcer._limited_sessions(began))) == 1
    update_policy(actor=SYSTEM, policy_id=policy.pk, limits=dict.fromkeys(LITTLE))
    watch(began + MINUTE, began + MINUTE)
    place.run()
    assert list(enforcer._limited_sessions(began)) == []


def test_the_end_is_put_off(place: Place, began: datetime) -> None:
    limit(place.owner, **LITTLE)
    session = place.run()
    use(session, began, 90, cpu_milli=0)
    watch(began, began + 38 * MINUTE)
    end = known_of(session).low_since + timedelta(seconds=1200)  # type: ignore[operator]
    with at(began + 38 * MINUTE):
        extend_session(actor=actor_for(place.owner), session_id=session.pk)
    assert end_of(place, session) == end + timedelta(hours=1)
    watch(began + 38 * MINUTE, began + 48 * MINUTE)
    assert place.fresh(session).is_running


def test_a_clock_that_jumps_makes_it_be_judged_anew(place: Place, began: datetime) -> None:
    limit(place.owner, **LITTLE)
    session = place.run()
    use(session, began, 25, cpu_milli=0)
    watch(began, began + 22 * MINUTE)
    step = timedelta(hours=1)
    with at(began + 22 * MINUTE + step), transaction.atomic():
        enforcer.shift_timestamps(ClockJump(step, clock.now(), timedelta(seconds=10)))
    watch(began + 22 * MINUTE + step, began + 30 * MINUTE + step)
    assert (place.fresh(session).is_running, end_of(place, session)) == (True, None)


@pytest.mark.parametrize("names", ["with_parts", "for_rows"])
def test_the_outlook_takes_no_query(place: Place, began: datetime, names: str) -> None:
    limit(place.owner, **LITTLE)
    session = place.run()
    use(session, began, 25, cpu_milli=1)
    watch(began, began + 22 * MINUTE)
    found = getattr(ComputeSession.objects, names)().get(pk=session.pk)
    with CaptureQueriesContext(connection) as queries:
        outlook = find_next_end(found)
    assert len(queries) == 0
    assert outlook is not None
    assert outlook.ends_at == known_of(session).low_since + timedelta(seconds=1200)  # type: ignore[operator]
    assert outlook.use == (ResourceUtilization("cpu", 0, 30),)


def test_rounds_take_as_many_queries_for_any_number_of_sessions_and_windows(
    place: Place, began: datetime
) -> None:
    other = make_place()
    limit(place.owner, **LITTLE)
    limit(other.owner, min_mem_percent=1, use_window_s=600)
    counts = []
    for sessions in ([place.run()], [place.run(), other.run(), other.run()]):
        for session in sessions:
            use(session, began, 40, cpu_milli=0)
        watch(began + 36 * MINUTE, began + 37 * MINUTE, is_measured=False)
        with at(began + 38 * MINUTE), CaptureQueriesContext(connection) as queries:
            enforcer.enforce_idle_limits(clock.now())
        counts.append(sum(query["sql"].startswith(STATEMENTS) for query in queries))
        SessionIdle.objects.update(low_since=began + 36 * MINUTE)
        IdleWatch.objects.update(judged_at=None)
    assert counts[0] == counts[1] <= 16
