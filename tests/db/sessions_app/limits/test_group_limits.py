"""Limits of a resource group, for all its sessions and per user, always or at certain hours."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from agents.resource_groups.service import update_resource_group
from common import clock
from common.actors import SYSTEM
from common.errors import InvalidInput, LimitExceeded
from common.values.resources import ResourceSlots
from scheduler.commit.plan_commit import StalePlan, commit_plan
from scheduler.engine import plan
from scheduler.history.replay import replay
from scheduler.models import KeptTick
from scheduler.snapshot.reader import read_snapshot
from scheduler.tick import run_tick
from sessions_app.admission.forecast import forecast_session
from sessions_app.core.request import parse_request
from sessions_app.core.states import Status
from sessions_app.limits.group_limits import groups_at_limit
from sessions_app.models import ComputeSession
from tests import factories
from tests.db.scheduler.test_concurrent_ticks import at_the_same_time
from tests.factories_devices import give_devices
from tests.factories_sessions import Place, make_place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]
BATCH = {"type": "batch", "command": "true"}
HOUR = timedelta(hours=1)
EVERY_DAY = [1, 2, 3, 4, 5, 6, 7]


def between(begins: datetime, ends: datetime) -> dict[str, Any]:
    """Of every day."""
    return {"days": EVERY_DAY, "begins": f"{begins:%H:%M}", "ends": f"{ends:%H:%M}", "time_zone": "UTC"}


def now_and_an_hour() -> dict[str, Any]:
    return between(clock.now() - HOUR, clock.now() + HOUR)


def limit_group(place: Place, *limits: Mapping[str, Any]) -> None:
    named = [{"name": f"limit {number}", **each} for number, each in enumerate(limits, 1)]
    update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"limits": named})
    place.group.refresh_from_db()


def tick(place: Place, *sessions: ComputeSession) -> list[bool]:
    """Whether each of these is placed."""
    run_tick(place.group.pk)
    return [place.fresh(each).status == Status.SCHEDULED for each in sessions]


def test_group_limit_bounds_the_total_and_message_states_until_when(place: Place) -> None:
    now, two = clock.now(), {"cpu": 2, "mem": "1g"}
    limit_group(place, {"together": {"cpu": 3000}, **between(now - HOUR, now + HOUR)})
    first, second = place.enqueue(resources=two), place.enqueue(resources=two)
    assert tick(place, first, second) == [True, False]
    waiting = place.fresh(second)
    assert waiting.status_reason == "limit_reached"
    until = (now + HOUR).replace(second=0, microsecond=0)
    assert str(waiting.status_message) == (
        f"Waits for 2 cores: the limit “limit 1” of resource group “{place.group.name}” is 3 cores for all sessions together"
        f" until {until:%Y-%m-%d %H:%M} UTC, with 2 cores allocated. It starts when some of them end, or then."
    )


def test_pending_sessions_start_when_the_hours_end_and_running_ones_continue(place: Place) -> None:
    running = place.run(resources={"cpu": 4, "mem": "1g"})
    limit_group(place, {"together": {"cpu": 2000}, **now_and_an_hour()})
    waiting = place.enqueue()
    assert tick(place, waiting) == [False]
    assert place.fresh(running).is_running
    with clock.frozen_at(clock.now() + HOUR + timedelta(minutes=1)):
        assert tick(place, waiting) == [True]


def test_at_other_hours_there_is_no_limit(place: Place) -> None:
    limit_group(place, {"together": {"cpu": 0}, **between(clock.now() + HOUR, clock.now() + 2 * HOUR)})
    assert tick(place, place.enqueue(resources={"cpu": 8, "mem": "1g"})) == [True]


def test_each_person_has_a_limit_of_their_own(place: Place) -> None:
    limit_group(place, {"each": {"cpu": 1000}})
    other = factories.make_user(member_of=place.project)
    mine, more, theirs = place.enqueue(), place.enqueue(), place.enqueue(by=other)
    assert tick(place, mine, more, theirs) == [True, False, True]
    assert "is 1 core per person, with 1 core allocated to sessions of its owner" in str(
        place.fresh(more).status_message
    )


def test_only_sessions_of_its_types_count_and_are_held_up(place: Place) -> None:
    limit_group(place, {"session_types": ["batch"], "together": {"cpu": 1000}})
    notebook = place.run(resources={"cpu": 3, "mem": "1g"})
    first, second = place.enqueue(**BATCH), place.enqueue(**BATCH)
    third = place.enqueue()
    assert tick(place, first, second, third) == [True, False, True]
    assert place.fresh(notebook).is_running


def test_sessions_of_other_groups_do_not_count(place: Place) -> None:
    elsewhere = make_place()
    place.run(resources={"cpu": 2, "mem": "1g"})
    limit_group(elsewhere, {"together": {"cpu": 1000}, "each": {"cpu": 1000}})
    assert tick(elsewhere, elsewhere.enqueue()) == [True]


def test_sessions_without_limited_slots_pass_those_waiting_for_the_limit(place: Place) -> None:
    give_devices(place.agent, 2)
    limit_group(place, {"together": {"gpu": 0}, **now_and_an_hour()})
    waiting = place.enqueue(resources={"cpu": 1, "mem": "1g", "gpu": 1})
    assert tick(place, waiting) == [False]
    assert tick(place, place.enqueue(), waiting) == [True, False]


def test_limit_applies_in_its_hours_only(place: Place) -> None:
    now = clock.now()
    limit_group(place, {"together": {"cpu": 0}, **between(now + HOUR, now + 2 * HOUR)})
    run_tick(place.group.pk)
    for later, is_let_in in ((HOUR, False), (2 * HOUR, True)):
        with clock.frozen_at(now + later + timedelta(minutes=1)):
            assert tick(place, place.enqueue()) == [is_let_in]


def test_a_plan_from_before_another_was_placed_is_not_written_beyond_it(place: Place) -> None:
    limit_group(place, {"together": {"cpu": 2000}})
    place.enqueue(resources={"cpu": 2, "mem": "1g"})
    decided = plan(read_snapshot(place.group.pk), clock.now())
    assert run_tick(place.group.pk)
    with pytest.raises(StalePlan):
        commit_plan(decided)


def test_ticks_at_the_same_time_keep_to_it(place: Place) -> None:
    limit_group(place, {"together": {"cpu": 3000}, "each": {"cpu": 3000}})
    run_tick(place.group.pk)
    for _ in range(3):
        for running in ComputeSession.objects.filter(status=Status.SCHEDULED):
            place.end(running)
        for _ in range(4):
            place.enqueue()
        at_the_same_time(*[lambda: run_tick(place.group.pk)] * 3)
        assert place.occupied().get("cpu", 0) <= 3000
        run_tick(place.group.pk)
        assert place.occupied()["cpu"] == 3000


def test_a_limit_that_was_lowered_lets_nothing_more_in_and_what_it_does_not_name_is_free(
    place: Place,
) -> None:
    place.run(resources={"cpu": 4, "mem": "1g"})
    limit_group(place, {"together": {"cpu": 2000, "cuda": 0}})
    assert tick(place, place.enqueue()) == [False]
    limit_group(place, {"together": {"cuda": 0}})
    assert tick(place, place.enqueue()) == [True]


def test_what_no_session_may_have_at_any_time_is_refused_at_once(place: Place) -> None:
    limit_group(place, {"together": {"cpu": 4000}, "each": {"cpu": 2000}})
    with pytest.raises(LimitExceeded, match="one session gets at most 2 cores"):
        place.enqueue(resources={"cpu": 3, "mem": "1g"})
    limit_group(place, {"together": {"cpu": 2000}, **now_and_an_hour()})
    later = place.enqueue(resources={"cpu": 3, "mem": "1g"})
    assert tick(place, later) == [False]
    assert "Waits until" in str(place.fresh(later).status_message)


def test_check_answers_with_the_group_limit(place: Place) -> None:
    limit_group(place, {"each": {"cpu": 1000}, **now_and_an_hour()})
    place.run()
    actor = factories.actor_for(place.owner)
    asked = forecast_session(actor, parse_request(place.request()))
    assert asked.outlook.reason == "limit_reached"
    assert "limit 1" in str(asked.outlook.sentence)
    assert "A superadmin" in str(asked.outlook.who_may_raise)
    assert asked.outlook.waits_for_group
    limit_group(place)
    assert forecast_session(actor, parse_request(place.request())).outlook.reason == "starts_now"


def test_other_groups_are_named_where_their_limits_let_it_start(place: Place) -> None:
    other, now = make_place(), clock.now()
    one_core, owner_id = ResourceSlots({"cpu": 1000}), place.owner.pk
    limit_group(place, {"each": {"cpu": 1000}})
    limit_group(other, {"session_types": ["batch"], "together": {"cpu": 500}})
    groups = [place.group, other.group]
    assert groups_at_limit(groups, "interactive", owner_id, one_core, now) == set()
    assert groups_at_limit(groups, "batch", owner_id, one_core, now) == {other.group.pk}
    place.run()
    assert groups_at_limit(groups, "interactive", owner_id, one_core, now) == {place.group.pk}
    assert groups_at_limit(groups, "interactive", 0, one_core, now) == set()


def test_recorded_tick_with_group_limits_replays_equally(place: Place) -> None:
    limit_group(place, {"together": {"cpu": 1000}, **now_and_an_hour()})
    first, second = place.enqueue(), place.enqueue()
    assert tick(place, first, second) == [True, False]
    kept = KeptTick.objects.latest("pk")
    seen = replay(kept)
    assert seen is not None
    [deferral] = seen.plan.deferrals
    assert deferral.session_id == second.pk
    assert deferral.explanation.excess is not None
    assert deferral.explanation.excess.quota.name == "limit 1"


@pytest.mark.parametrize("limits", [[{"name": "x"}], [{"name": "x", "each": {"cpu": 1}, "days": [9]}], "x"])
def test_what_is_no_limit_is_refused_at_its_field(place: Place, limits: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"limits": limits})
    assert list(refused.value.fields) == ["limits"]
