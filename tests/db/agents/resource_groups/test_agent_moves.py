"""Agents change their resource group while reservations and plans commit, in concurrent threads."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction

from agents.models import Agent, Reservation, ResourceGroup
from agents.reservations import service as reservations_service
from agents.resource_groups import service as resource_groups_service
from common import clock
from common.actors import SYSTEM
from common.errors import BerthError
from scheduler.commit import plan_commit
from scheduler.engine import plan
from scheduler.models import SchedulerState
from scheduler.snapshot.reader import read_snapshot
from sessions_app.core.states import Status
from tests.factories_sessions import Place, make_place
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def waiting() -> int:
    """How many connections of this database wait for a lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])


def in_thread(job: Callable[[], object], told: list[object]) -> threading.Thread:
    """What it returned or was refused for is added to `told`."""

    def run() -> None:
        try:
            told.append(job())
        except BerthError as error:
            told.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def held(group: ResourceGroup) -> tuple[threading.Thread, threading.Event]:
    """Somebody who holds the group until the event."""
    has_it, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            ResourceGroup.objects.select_for_update().get(pk=group.pk)
            has_it.set()
            assert let_go.wait(timeout=60)

    thread = in_thread(hold, [])
    assert has_it.wait(timeout=10)
    return thread, let_go


def make_default(group: ResourceGroup) -> ResourceGroup:
    return resource_groups_service.update_resource_group(
        actor=SYSTEM, group_id=group.pk, changes={"is_default": True}
    )


def reserve(place: Place) -> Reservation:
    return reservations_service.reserve_agents(
        actor=SYSTEM,
        group_id=place.group.pk,
        name="Course",
        agents=[place.agent.name],
        starts_at=None,
        ends_at=clock.now() + timedelta(hours=1),
    )


def test_a_machine_that_is_being_moved_is_not_reserved_where_it_was(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_place()
    demand, has_looked, may_go_on = (
        resource_groups_service._check_not_reserved,
        threading.Event(),
        threading.Event(),
    )

    def look_and_pause(agent: Agent) -> None:
        demand(agent)
        has_looked.set()
        assert may_go_on.wait(timeout=10)

    monkeypatch.setattr(resource_groups_service, "_check_not_reserved", look_and_pause)
    moved: list[object] = []
    reserved: list[object] = []
    moving = in_thread(
        lambda: resource_groups_service.move_agent(
            actor=SYSTEM, agent_id=place.agent.pk, group_id=other.group.pk
        ),
        moved,
    )
    assert has_looked.wait(timeout=10)
    reserving = in_thread(lambda: reserve(place), reserved)
    assert wait_until(waiting)
    may_go_on.set()
    moving.join(timeout=20)
    reserving.join(timeout=20)

    assert moved == [place.agent]
    [refusal] = reserved
    assert isinstance(refusal, BerthError), "its group has no such machine any more"
    assert not Reservation.objects.exists()
    assert Agent.objects.get(pk=place.agent.pk).resource_group == other.group


@pytest.fixture(params=[0, 7], ids=["first plan", "later plan"])
def epoch(request: pytest.FixtureRequest, place: Place) -> int:
    """Epoch of the group before; a group without plans has no row of run state yet."""
    if request.param:
        SchedulerState.objects.create(group=place.group, epoch=request.param)
    return int(request.param)


def test_a_plan_that_waits_for_a_move_is_stale_afterwards(
    place: Place, epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, session = make_place(), place.enqueue()
    decided = plan(read_snapshot(place.group.pk), clock.now())
    demand, is_moving, may_go_on = (
        resource_groups_service._check_not_reserved,
        threading.Event(),
        threading.Event(),
    )

    def look_and_pause(agent: Agent) -> None:
        demand(agent)
        is_moving.set()
        assert may_go_on.wait(timeout=10)

    def commit_it() -> object:
        with pytest.raises(plan_commit.StalePlan):
            plan_commit.commit_plan(decided)
        return "stale"

    monkeypatch.setattr(resource_groups_service, "_check_not_reserved", look_and_pause)
    moved: list[object] = []
    committed: list[object] = []
    moving = in_thread(
        lambda: resource_groups_service.move_agent(
            actor=SYSTEM, agent_id=place.agent.pk, group_id=other.group.pk
        ),
        moved,
    )
    assert is_moving.wait(timeout=10)
    committing = in_thread(commit_it, committed)
    assert wait_until(waiting)
    may_go_on.set()
    moving.join(timeout=20)
    committing.join(timeout=20)

    assert (moved, committed) == ([place.agent], ["stale"])
    assert SchedulerState.objects.get(group=place.group).epoch == epoch + 1
    session.refresh_from_db()
    assert session.status == Status.PENDING


def test_a_move_and_a_commit_of_a_plan_wait_for_each_other_in_one_order(
    place: Place, epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, session = make_place(), place.enqueue()
    decided = plan(read_snapshot(place.group.pk), clock.now())
    lock_agents, has_group, may_go_on = plan_commit._lock_agents, threading.Event(), threading.Event()

    def pause_and_lock(kernels: Any) -> Any:
        has_group.set()
        assert may_go_on.wait(timeout=10)
        return lock_agents(kernels)

    monkeypatch.setattr(plan_commit, "_lock_agents", pause_and_lock)
    committed: list[object] = []
    moved: list[object] = []
    committing = in_thread(lambda: plan_commit.commit_plan(decided), committed)
    assert has_group.wait(timeout=10)
    moving = in_thread(
        lambda: resource_groups_service.move_agent(
            actor=SYSTEM, agent_id=place.agent.pk, group_id=other.group.pk
        ),
        moved,
    )
    assert wait_until(waiting)
    may_go_on.set()
    committing.join(timeout=20)
    moving.join(timeout=20)

    assert (committed, moved) == ([[session.pk]], [place.agent])
    assert SchedulerState.objects.get(group=place.group).epoch == epoch + 2
    assert Agent.objects.get(pk=place.agent.pk).resource_group == other.group


def test_a_move_out_of_the_default_group_and_another_default_take_both_in_one_order(place: Place) -> None:
    other = resource_groups_service.create_resource_group(actor=SYSTEM, name="other")
    told: list[object] = []
    holding, let_go = held(place.group)
    moving = in_thread(
        lambda: resource_groups_service.move_agent(actor=SYSTEM, agent_id=place.agent.pk, group_id=other.pk),
        told,
    )
    assert wait_until(lambda: waiting() == 1)
    changing = in_thread(lambda: make_default(other), told)
    assert wait_until(lambda: waiting() == 2)
    let_go.set()
    for thread in (holding, moving, changing):
        thread.join(timeout=20)

    assert set(told) == {place.agent, other}
    assert Agent.objects.get(pk=place.agent.pk).resource_group == other
    assert list(ResourceGroup.objects.filter(is_default=True)) == [other]


def test_of_two_that_become_the_default_at_once_the_later_is_it(place: Place) -> None:
    first, second = (
        resource_groups_service.create_resource_group(actor=SYSTEM, name=name) for name in ("first", "second")
    )
    told: list[object] = []
    holding, let_go = held(place.group)
    threads = [holding]
    for number, group in enumerate((first, second), start=1):
        threads.append(in_thread(lambda group=group: make_default(group), told))
        assert wait_until(lambda number=number: waiting() == number)
    let_go.set()
    for thread in threads:
        thread.join(timeout=20)

    assert {*told} == {first, second}
    assert list(ResourceGroup.objects.filter(is_default=True)) == [told[-1]]


def test_of_two_moves_at_once_the_later_is_refused(place: Place) -> None:
    stale = Agent.objects.get(pk=place.agent.pk)
    first, second = make_place(), make_place()
    resource_groups_service.move_agent(actor=SYSTEM, agent_id=stale.pk, group_id=first.group.pk)
    with pytest.raises(BerthError, match="at the same moment"), transaction.atomic():
        resource_groups_service.put_into_group(SYSTEM, stale, second.group)
    assert Agent.objects.get(pk=stale.pk).resource_group == first.group
