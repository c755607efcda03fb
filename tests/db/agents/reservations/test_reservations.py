"""Reservations: permissions, refusals, and their effect on the scheduler."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import IntegrityError, transaction

from accounts.core.roles import Role
from agents.core.states import AgentState
from agents.machines import service as machines_service
from agents.models import Agent, Reservation, ReservedAgent, ResourceGroup
from agents.reservations import service as reservations_service
from agents.reservations.selectors import current_reservations, detailed_ids, with_reserved_agents
from agents.resource_groups import service as resource_groups_service
from common import clock
from common.actors import SYSTEM
from common.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from common.models import AuditEntry
from scheduler.commit.plan_commit import StalePlan, commit_plan
from scheduler.engine import plan
from scheduler.run_state import run_state
from scheduler.snapshot.reader import read_snapshot
from scheduler.tick import run_tick
from tests.factories import actor_for, make_project, make_user
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
BATCH = {"type": "batch", "command": "true"}


def reserve(
    place: Place, *, begins: timedelta | None = None, lasts: timedelta = HOUR, **more: Any
) -> Reservation:
    starts_at = None if begins is None else clock.now() + begins
    columns = {
        "name": "Course",
        "agents": [place.agent.name],
        "starts_at": starts_at,
        "ends_at": (starts_at or clock.now()) + lasts,
        **more,
    }
    return reservations_service.reserve_agents(**{"actor": SYSTEM, "group_id": place.group.pk, **columns})


def at(monkeypatch: pytest.MonkeyPatch, instant: datetime) -> None:
    monkeypatch.setattr(clock, "now", lambda: instant)


def test_reservation_is_created_announced_and_cancelled(place: Place) -> None:
    epoch = run_state(ResourceGroup.objects.get()).epoch
    made = reserve(place, grantee=place.project, reason="Exam")
    assert list(current_reservations(place.group)) == [made]
    assert [each.agent for each in made.machines.all()] == [place.agent]
    assert run_state(ResourceGroup.objects.get()).epoch == epoch + 1
    entry = AuditEntry.objects.get(action="agents.reserve_agents")
    assert entry.changes["project"] == place.project.name
    assert entry.changes["agents"] == [place.agent.name]

    reservations_service.cancel_reservation(actor=SYSTEM, group_id=place.group.pk, reservation_id=made.pk)
    assert not ReservedAgent.objects.exists()
    assert run_state(ResourceGroup.objects.get()).epoch == epoch + 2
    assert AuditEntry.objects.get(action="agents.cancel_reservation").changes == entry.changes
    with pytest.raises(NotFound):
        reservations_service.cancel_reservation(actor=SYSTEM, group_id=place.group.pk, reservation_id=made.pk)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": " "}, "name"),
        ({"begins": -HOUR}, "starts_at"),
        ({"begins": timedelta(days=400)}, "starts_at"),
        ({"lasts": timedelta()}, "ends_at"),
        ({"lasts": -HOUR}, "ends_at"),
        ({"lasts": timedelta(days=400)}, "ends_at"),
        ({"agents": []}, "agents"),
        ({"agents": ["absent"]}, "agents"),
    ],
)
def test_wrong_values_are_refused_at_their_field(place: Place, wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        reserve(place, **wrong)
    assert set(refusal.value.fields) == {field}
    assert not Reservation.objects.exists()


def change(place: Place, reservation: Reservation, **columns: Any) -> Reservation:
    return reservations_service.change_reservation(
        **{"actor": SYSTEM, "group_id": place.group.pk, "reservation_id": reservation.pk, **columns}
    )


def test_reservation_is_changed_and_announced(place: Place) -> None:
    other = make_place().agent
    resource_groups_service.move_agent(actor=SYSTEM, agent_id=other.pk, group_id=place.group.pk)
    made = reserve(place, begins=HOUR)
    epoch = run_state(ResourceGroup.objects.get(pk=place.group.pk)).epoch
    later = made.ends_at + HOUR
    change(place, made, name="Exam", ends_at=later, agents=[other.name])

    now = Reservation.objects.get()
    assert (now.name, now.starts_at, now.ends_at) == ("Exam", made.starts_at, later)
    machine = ReservedAgent.objects.get()
    assert (machine.agent, machine.during.lower, machine.during.upper) == (other, now.starts_at, later)
    assert run_state(ResourceGroup.objects.get(pk=place.group.pk)).epoch == epoch + 1
    entry = AuditEntry.objects.get(action="agents.change_reservation")
    assert entry.changes == {
        "name": ["Course", "Exam"],
        "ends_at": [made.ends_at.isoformat(), later.isoformat()],
        "agents": [[place.agent.name], [other.name]],
    }


def test_what_says_nothing_new_is_no_change(place: Place) -> None:
    made = reserve(place, begins=HOUR)
    epoch = run_state(ResourceGroup.objects.get()).epoch
    change(place, made, name="Course", starts_at=made.starts_at, agents=[place.agent.name])
    assert run_state(ResourceGroup.objects.get()).epoch == epoch
    assert not AuditEntry.objects.filter(action="agents.change_reservation").exists()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": " "}, "name"),
        ({"starts_at": -HOUR}, "starts_at"),
        ({"starts_at": 4 * HOUR}, "ends_at"),
        ({"starts_at": timedelta(days=400), "ends_at": timedelta(days=401)}, "starts_at"),
        ({"ends_at": -HOUR}, "ends_at"),
        ({"ends_at": HOUR / 2}, "ends_at"),
        ({"ends_at": timedelta(days=400)}, "ends_at"),
        ({"agents": []}, "agents"),
        ({"agents": ["absent"]}, "agents"),
    ],
)
def test_wrong_changes_are_refused_at_their_field(place: Place, wrong: dict[str, Any], field: str) -> None:
    made = reserve(place, begins=HOUR)
    now = clock.now()
    columns = {name: now + value if isinstance(value, timedelta) else value for name, value in wrong.items()}
    with pytest.raises(InvalidInput) as refusal:
        change(place, made, **columns)
    assert set(refusal.value.fields) == {field}
    assert Reservation.objects.get().ends_at == made.ends_at


def test_one_that_has_begun_keeps_its_start_and_ends_when_one_says(place: Place) -> None:
    made = reserve(place)
    with pytest.raises(InvalidInput, match="which stays") as refusal:
        change(place, made, starts_at=made.starts_at + HOUR / 2)
    assert set(refusal.value.fields) == {"starts_at"}
    session = place.enqueue()
    assert run_tick(place.group.pk) == []

    change(place, made, ends_at=clock.now() + timedelta(minutes=1))
    with clock.frozen_at(clock.now() + timedelta(minutes=2)):
        assert run_tick(place.group.pk) == [session.pk]
        with pytest.raises(NotFound):
            change(place, made, name="Too late")


def test_it_grows_up_to_its_neighbour(place: Place) -> None:
    made = reserve(place, begins=HOUR)
    reserve(place, name="Exam", starts_at=made.ends_at + HOUR, ends_at=made.ends_at + 2 * HOUR)
    change(place, made, ends_at=made.ends_at + HOUR)
    with pytest.raises(Conflict, match="“Exam”"):
        change(place, made, ends_at=made.ends_at + 1.5 * HOUR)


def test_machines_that_are_taken_away_are_for_everybody_at_once(place: Place) -> None:
    other = make_place().agent
    resource_groups_service.move_agent(actor=SYSTEM, agent_id=other.pk, group_id=place.group.pk)
    made = reserve(place, agents=[place.agent.name, other.name])
    session = place.enqueue()
    assert run_tick(place.group.pk) == []
    change(place, made, agents=[other.name])
    assert run_tick(place.group.pk) == [session.pk]


def test_what_is_refused_is_said_in_utc_whatever_zone_it_came_in(place: Place) -> None:
    nine_in_seoul = datetime(2020, 1, 1, 9, 0, tzinfo=ZoneInfo("Asia/Seoul"))
    with pytest.raises(InvalidInput, match="2020-01-01 00:00 UTC is past"):
        reserve(place, starts_at=nine_in_seoul)


def test_machines_of_another_group_are_refused(place: Place) -> None:
    with pytest.raises(InvalidInput, match="has no machine"):
        reserve(place, agents=[make_place().agent.name])


@pytest.mark.parametrize("begins", [timedelta(), HOUR / 2, -HOUR])
def test_overlaps_are_refused_with_what_is_there_and_neighbours_are_not(
    place: Place, begins: timedelta
) -> None:
    reserve(place, begins=2 * HOUR)
    with pytest.raises(Conflict) as refusal:
        reserve(place, begins=2 * HOUR + begins, lasts=2 * HOUR)
    assert "“Course”" in refusal.value.message
    assert set(refusal.value.fields) == {"agents"}
    first = Reservation.objects.get()
    reserve(place, starts_at=first.ends_at, ends_at=first.ends_at + HOUR)
    reserve(place, starts_at=first.starts_at - HOUR, ends_at=first.starts_at)


def test_the_database_refuses_a_machine_reserved_twice(place: Place) -> None:
    first = reserve(place)
    with pytest.raises(IntegrityError), transaction.atomic():
        ReservedAgent.objects.create(
            reservation=first, agent=place.agent, during=(first.ends_at - HOUR / 2, first.ends_at + HOUR)
        )


@pytest.mark.parametrize("role", [Role.USER, Role.DOMAIN_ADMIN, Role.MONITOR])
def test_superadmins_alone_write_them(place: Place, role: Role) -> None:
    actor = actor_for(make_user(domain=place.project.domain, role=role))
    made = reserve(place)
    with pytest.raises(PermissionDenied):
        reserve(place, actor=actor)
    with pytest.raises(PermissionDenied):
        change(place, made, actor=actor, name="Mine")
    with pytest.raises(PermissionDenied):
        reservations_service.cancel_reservation(actor=actor, group_id=place.group.pk, reservation_id=made.pk)


def test_a_reserved_machine_stays_in_its_group(place: Place) -> None:
    reserve(place, begins=HOUR)
    other = resource_groups_service.create_resource_group(actor=SYSTEM, name="other")
    with pytest.raises(Conflict, match="Course"):
        resource_groups_service.move_agent(actor=SYSTEM, agent_id=place.agent.pk, group_id=other.pk)
    Reservation.objects.update(starts_at=clock.now() - 2 * HOUR, ends_at=clock.now() - HOUR)
    resource_groups_service.move_agent(actor=SYSTEM, agent_id=place.agent.pk, group_id=other.pk)


def test_a_deleted_group_keeps_none_of_its_retired_machines(place: Place) -> None:
    over = reserve(place, lasts=HOUR)
    Reservation.objects.update(starts_at=clock.now() - 2 * HOUR, ends_at=clock.now() - HOUR)
    ReservedAgent.objects.update(during=(clock.now() - 2 * HOUR, clock.now() - HOUR))
    reserve(place, lasts=HOUR)
    reserve(place, begins=2 * HOUR, name="Exam", grantee=place.project)
    machines_service.change_agent_state(actor=SYSTEM, agent_id=place.agent.pk, to=AgentState.RETIRED)
    other = make_place().group
    resource_groups_service.update_resource_group(
        actor=SYSTEM, group_id=other.pk, changes={"is_default": True}
    )

    resource_groups_service.delete_resource_group(actor=SYSTEM, group_id=place.group.pk)
    assert list(Reservation.objects.all()) == [over], "the history stays"
    told = AuditEntry.objects.filter(action="agents.cancel_reservation").order_by("pk")
    assert [entry.changes["name"] for entry in told] == ["Course", "Exam"]
    assert told[1].changes["project"] == place.project.name
    again = machines_service.register_agent(actor=SYSTEM, name=place.agent.name, address=place.agent.address)
    assert (again.resource_group, again.state) == (other, AgentState.CONNECTED)
    assert reserve(place, group_id=other.pk).group == other


@pytest.mark.parametrize("level", ["domain", "project", "user", "nobody"])
def test_the_machine_is_for_the_grantee_alone(place: Place, level: str) -> None:
    grantees = {"domain": place.project.domain, "project": place.project, "user": place.owner}
    reserve(place, grantee=grantees.get(level))
    session = place.enqueue()
    assert run_tick(place.group.pk) == ([] if level == "nobody" else [session.pk])
    later = place.enqueue()
    assert bool(run_tick(place.group.pk)) == (level != "nobody")
    assert (place.fresh(later).status == "SCHEDULED") == (level != "nobody")


def test_for_others_it_opens_when_the_reservation_is_over(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = reserve(place, begins=HOUR, grantee=make_project(place.project.domain))
    long, short = place.enqueue(**BATCH, timeout_s=7200), place.enqueue(**BATCH, timeout_s=1800)
    assert run_tick(place.group.pk) == [short.pk], "what ends before may start before"
    assert "will be reserved for others" in str(place.fresh(long).status_message)

    at(monkeypatch, made.starts_at)
    assert run_tick(place.group.pk) == []
    assert "are reserved for others" in str(place.fresh(long).status_message)
    later = place.enqueue()
    assert run_tick(place.group.pk) == []

    at(monkeypatch, made.ends_at)
    assert set(run_tick(place.group.pk)) == {long.pk, later.pk}


def test_a_planner_that_planned_before_it_began_gives_others_nothing_in_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = reserve(place, begins=HOUR)
    at(monkeypatch, made.starts_at - timedelta(seconds=5))
    run_tick(place.group.pk)
    at(monkeypatch, made.starts_at + timedelta(seconds=5))
    place.enqueue(**BATCH, timeout_s=60)
    assert run_tick(place.group.pk) == []


def test_a_plan_that_was_made_before_a_reservation_is_stale(place: Place) -> None:
    place.enqueue()
    decided = plan(read_snapshot(place.group.pk), clock.now())
    assert decided.placements
    reserve(place)
    with pytest.raises(StalePlan):
        commit_plan(decided)


def test_what_runs_there_goes_on(place: Place) -> None:
    session = place.run()
    reserve(place)
    assert place.fresh(session).status == "RUNNING"


def test_whose_a_reservation_is_learn_those_whom_it_concerns(place: Place) -> None:
    owner, stranger = actor_for(place.owner), actor_for(make_user())
    monitor = actor_for(make_user(role=Role.MONITOR))
    for grantee in (place.project.domain, place.project, place.owner, None):
        Reservation.objects.all().delete()
        made = [reserve(place, grantee=grantee)]
        told = [bool(detailed_ids(actor, made)) for actor in (owner, stranger, monitor)]
        assert told == [grantee is not None, False, True]


def test_of_reservations_to_come_the_next_of_each_machine_is_read(place: Place) -> None:
    other = make_place()
    resource_groups_service.move_agent(actor=SYSTEM, agent_id=other.agent.pk, group_id=place.group.pk)
    now, agents = clock.now(), [place.agent.name, other.agent.name]
    for week in (30, 20, 10):
        reserve(place, begins=timedelta(weeks=week), agents=agents)
    begun = reserve(place, lasts=HOUR, grantee=place.project)
    reserve(place, begins=timedelta(weeks=5), grantee=place.project.domain)
    [found] = with_reserved_agents(ResourceGroup.objects.filter(pk=place.group.pk), clock.now())
    told = [(row["agent"], row["starts_at"][:10]) for row in found.reserved]  # type: ignore[attr-defined]
    assert told == [
        (agent.pk, f"{now + timedelta(weeks=weeks):%Y-%m-%d}")
        for agent, weeks in ((place.agent, 0), (place.agent, 5), (other.agent, 10))
    ]
    seen = read_snapshot(place.group.pk)
    assert [bool(agent.window) for agent in seen.agents] == [True, False]
    assert all(agent.next_window for agent in seen.agents)
    assert begun.pk in seen.reservations[f"project:{place.project.pk}"]


def test_reading_costs_no_query_more(place: Place, django_assert_num_queries: Any) -> None:
    reserve(place)
    with django_assert_num_queries(3):
        read_snapshot(place.group.pk)
    assert Agent.objects.get() == place.agent
