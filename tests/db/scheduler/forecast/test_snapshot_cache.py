"""The snapshot cache of a web process saves queries and is never stale."""

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Membership
from agents.core.states import AgentState
from agents.models import Agent, AgentDevice, AgentSlot, Reservation, ReservedAgent, ResourceGroup
from common import clock
from scheduler.engine import Policy
from scheduler.forecast import snapshot_cache
from scheduler.models import SchedulerState
from scheduler.snapshot.start_time_model import MAX_AHEAD
from scheduler.tick import run_tick
from sessions_app.admission.forecast import forecast_session
from sessions_app.core.request import parse_request
from sessions_app.core.states import Reason, Status
from sessions_app.models import ComputeSession
from sessions_app.ports import StartForecast
from tests.factories import actor_for, make_project
from tests.factories_devices import give_devices
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
WARM_QUERIES = 9
HOUR = timedelta(hours=1)
ALL = {"cpu": 8, "mem": "1g"}


@pytest.fixture
def place() -> Place:
    snapshot_cache.clear_cache()
    return make_place()


def outlook(place: Place, **asked: Any) -> StartForecast:
    return forecast_session(actor_for(place.owner), parse_request(place.request(**asked))).outlook


def test_second_forecast_reads_the_group_from_cache(place: Place) -> None:
    first = outlook(place)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        again = outlook(place)
    assert again == first
    assert len(queries) <= WARM_QUERIES
    assert not [each for each in queries if "kernelallocation" in each["sql"]]


def test_changed_queue_order_invalidates_the_cache(place: Place) -> None:
    outlook(place)
    state = SchedulerState.objects.create(group=place.group, head_ids=[place.enqueue().pk])
    outlook(place)
    SchedulerState.objects.filter(pk=state.pk).update(head_ids=[])
    with CaptureQueriesContext(connection) as queries:
        outlook(place)
    assert [each for each in queries if "kernelallocation" in each["sql"]]


@pytest.mark.parametrize("is_kept", [False, True])
def test_that_others_are_ended_for_it_is_foreseen(place: Place, is_kept: bool) -> None:
    rule = {"preemptible_priority": 0, "preemption_after_s": 0, "preemption_grace_s": 60}
    ResourceGroup.objects.filter(pk=place.group.pk).update(**rule)
    ComputeSession.objects.filter(pk=place.run(resources=ALL).pk).update(priority=-5)
    if is_kept:
        outlook(place, priority=-10)
    foreseen = outlook(place, resources=ALL)
    assert foreseen.reason == "making_room"
    assert outlook(place, resources=ALL, priority=-5).reason == "no_capacity", "its equals stay"
    session = place.enqueue(resources=ALL)
    run_tick(place.group.pk)
    assert place.fresh(session).status_reason == foreseen.reason


@pytest.mark.parametrize("is_full_first", [True, False])
def test_a_range_is_that_of_the_project_that_is_asked_for(place: Place, is_full_first: bool) -> None:
    """In one it waits for a limit of which nobody knows when it has room; all else is the same."""
    place.run(resources=ALL, timeout_s=600)
    full, other = place.project, make_project(place.project.domain)
    Membership.objects.create(project=other, user=place.owner)
    limit(full, max_slots={"cpu": 8000})
    projects = [full, other] if is_full_first else [other, full]
    asked = {"resources": ALL, "timeout_s": 300}
    ranges = {each: outlook(place, project=each.name, **asked).start_range for each in projects}
    assert (ranges[full] is None, ranges[other] is None) == (True, False)


def test_sessions_behind_the_backlog_threshold_have_no_forecast(place: Place) -> None:
    """Who finds out where the crowd ends is behind it; who asks afterwards may be before it."""
    place.run(resources=ALL, timeout_s=600)
    for _ in range(MAX_AHEAD + 1):
        place.enqueue(resources=ALL, timeout_s=300, priority=-10)
    assert outlook(place, resources=ALL, priority=-10).start_range is None
    before = outlook(place, resources=ALL, timeout_s=300)
    assert (before.position, before.start_range is None) == (1, False)
    behind = outlook(place, resources={"cpu": 7, "mem": "1g"}, timeout_s=300, priority=-10)
    assert (behind.position, behind.start_range) == (MAX_AHEAD + 2, None)


def test_a_range_is_drawn_once_for_the_same_question(place: Place) -> None:
    place.run(resources=ALL, timeout_s=600)
    asked = {"resources": ALL, "timeout_s": 300}
    first = outlook(place, **asked)
    with CaptureQueriesContext(connection) as queries:
        assert outlook(place, **asked).start_range == first.start_range
    assert len(queries) <= WARM_QUERIES + 2  # other groups are asked about each time
    assert first.start_range is not None
    longer = outlook(place, resources=ALL)
    assert longer.reason == first.reason


def test_a_device_that_is_withheld_or_returns_is_noticed_even_if_the_capacity_stays(place: Place) -> None:
    first, second = give_devices(place.agent)
    asked = {"resources": {"cpu": 1, "mem": "1g", "gpu": 1}}
    AgentSlot.objects.filter(slot_name="gpu").update(capacity=1000)
    withheld = AgentDevice.objects.filter(pk=second.pk)
    withheld.update(withheld="quarantine")
    assert outlook(place, **asked).starts_now
    AgentDevice.objects.filter(pk=first.pk).update(withheld="quarantine")
    assert not outlook(place, **asked).starts_now
    withheld.update(withheld="")
    assert outlook(place, **asked).starts_now


@pytest.mark.parametrize("change", ["starts", "ends", "drains", "shrinks", "pauses", "waits", "reserves"])
def test_changes_are_visible_at_once(place: Place, change: str) -> None:
    running = place.run(resources=ALL) if change == "ends" else None
    before = outlook(place, resources=ALL)
    assert before.starts_now == (running is None)
    if running is not None:
        place.end(running)
    elif change == "starts":
        place.run(resources={"cpu": 1, "mem": "1g"})
    elif change == "drains":
        Agent.objects.update(state=AgentState.DRAINING.value)
    elif change == "shrinks":
        AgentSlot.objects.filter(slot_name="cpu").update(occupied=1000)
    elif change == "pauses":
        ResourceGroup.objects.update(is_active=False)
    elif change == "reserves":
        now = clock.now()
        reserved = Reservation.objects.create(
            group=place.group, name="maintenance", starts_at=now - HOUR, ends_at=now + HOUR
        )
        ReservedAgent.objects.create(
            reservation=reserved, agent=place.agent, during=(reserved.starts_at, reserved.ends_at)
        )
    else:
        assert place.enqueue(resources=ALL).status == Status.PENDING.value
    assert outlook(place, resources=ALL).starts_now == (running is not None)


@pytest.mark.parametrize("seed", range(8))
def test_cached_and_fresh_forecasts_agree_with_the_tick(seed: int) -> None:
    snapshot_cache.clear_cache()
    place, chance = make_place(), Random(seed)
    ResourceGroup.objects.update(patience_s=0, scheduler=chance.choice(list(Policy)).value)
    limit(place.owner, max_slots={"cpu": chance.choice([6000, 16000])})
    running: list[ComputeSession] = []
    for _ in range(6):
        asked = {
            "resources": {"cpu": chance.randint(1, 6), "mem": "1g"},
            "timeout_s": chance.choice([None, 60, 600]),
        }
        kept = outlook(place, **asked)
        snapshot_cache.clear_cache()
        assert replace(outlook(place, **asked), start_range=None) == replace(kept, start_range=None)
        session = place.enqueue(**asked)
        run_tick(place.group.pk)
        session.refresh_from_db()
        assert session.status_reason == (Reason.PLACED.value if kept.starts_now else kept.reason)
        if kept.starts_now:
            assert session.kernels.get().agent_id == Agent.objects.get(name=kept.agent).pk
            running.append(session)
        if running and chance.random() < 0.4:
            place.end(running.pop(chance.randrange(len(running))))
            run_tick(place.group.pk)


def test_limits_are_those_of_now(place: Place) -> None:
    assert outlook(place).starts_now
    limit(place.owner, max_slots={"cpu": 500})
    with pytest.raises(Exception, match="may"):
        outlook(place, resources={"cpu": 1, "mem": "1g"})
    limit(place.owner, max_slots={"cpu": 4000})
    place.run(resources={"cpu": 4, "mem": "1g"})
    found = outlook(place, resources={"cpu": 1, "mem": "1g"})
    assert (found.reason, bool(found.who_may_raise)) == ("limit_reached", True)


def test_of_large_groups_a_second_is_trusted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_cache, "LARGE_GROUP", 1)
    monkeypatch.setattr(snapshot_cache, "TRUSTED_FOR_S", 1000.0)
    assert outlook(place, resources=ALL).starts_now
    AgentSlot.objects.filter(slot_name="cpu").update(occupied=1000)
    assert outlook(place, resources=ALL).starts_now
    ResourceGroup.objects.update(is_active=False)  # rules hold at once
    assert outlook(place, resources=ALL).reason == "group_paused"
    ResourceGroup.objects.update(is_active=True)
    monkeypatch.setattr(snapshot_cache, "TRUSTED_FOR_S", -1.0)
    assert not outlook(place, resources=ALL).starts_now


def test_a_machine_that_left_the_group_meanwhile_has_its_name(place: Place) -> None:
    picture = snapshot_cache.cached_snapshot(place.group, ())
    Agent.objects.filter(pk=place.agent.pk).update(resource_group=make_place().group)
    assert picture.agent_name(place.agent.pk) == place.agent.name
