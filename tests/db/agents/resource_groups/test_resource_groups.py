"""Resource groups: access, allowed session types, creation and deletion."""

from typing import Any

import pytest

from accounts.core.roles import Role
from accounts.models import Membership
from agents.core.states import AgentState
from agents.machines import service as machines_service
from agents.models import GroupGrant, ResourceGroup
from agents.resource_groups import service as resource_groups_service
from agents.selectors import (
    access_group,
    access_resource_group,
    usable_resource_groups,
    visible_agents,
    visible_resource_groups,
)
from common.actors import SYSTEM, Actor
from common.errors import BerthError, Conflict, InvalidInput, LimitExceeded, NotFound, PermissionDenied
from common.models import AuditEntry
from scheduler.engine import ReasonCode
from scheduler.tick import run_tick
from sessions_app.admission import load
from tests.elsewhere import elsewhere
from tests.factories import actor_for, make_project, make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner(place: Place) -> Actor:
    return actor_for(place.owner)


def change(place: Place, **changes: Any) -> None:
    resource_groups_service.update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes=changes)


def allow(place: Place, grantee: Any) -> GroupGrant:
    return resource_groups_service.grant_resource_group(
        actor=SYSTEM, group_id=place.group.pk, grantee=grantee
    )


@pytest.mark.parametrize("level", ["domain", "project", "user"])
def test_private_group_is_visible_by_grant_only(place: Place, owner: Actor, level: str) -> None:
    change(place, is_public=False)
    stranger = actor_for(make_user())
    grantee = {"domain": place.project.domain, "project": place.project, "user": place.owner}[level]
    assert not visible_resource_groups(owner).exists()
    assert not visible_agents(owner).exists()
    with pytest.raises(NotFound) as hidden:
        place.enqueue()
    with pytest.raises(NotFound) as absent:
        place.enqueue(resource_group="group-0")
    assert hidden.value.message.replace(place.group.name, "") == absent.value.message.replace("group-0", "")

    grant = allow(place, grantee)
    assert allow(place, grantee) == grant, "a repeat changes nothing"
    assert AuditEntry.objects.filter(action="agents.grant_resource_group").count() == 1
    place.enqueue()
    assert visible_agents(owner).exists()
    assert not visible_resource_groups(stranger).exists()
    with pytest.raises(NotFound):
        access_group(stranger, place.group.pk)

    resource_groups_service.revoke_resource_group(actor=SYSTEM, group_id=place.group.pk, grant_id=grant.pk)
    with pytest.raises(NotFound):
        place.enqueue()
    with pytest.raises(NotFound):
        resource_groups_service.revoke_resource_group(
            actor=SYSTEM, group_id=place.group.pk, grant_id=grant.pk
        )


def test_a_grant_to_one_project_opens_no_other(place: Place, owner: Actor) -> None:
    other = make_project(place.project.domain)
    Membership.objects.create(project=other, user=place.owner)
    change(place, is_public=False)
    allow(place, place.project)
    assert usable_resource_groups(owner).exists()
    assert access_resource_group(owner, "", place.project) == place.group
    with pytest.raises(NotFound):
        access_resource_group(owner, place.group.name, other)
    with pytest.raises(NotFound):
        place.enqueue(project=other.name)


def test_overseers_of_a_domain_see_what_its_people_may_use_and_superadmins_all(place: Place) -> None:
    change(place, is_public=False)
    near, far = (
        actor_for(make_user(domain=each, role=Role.DOMAIN_ADMIN)) for each in (place.project.domain, None)
    )
    superadmin, monitor = (actor_for(make_user(role=role)) for role in (Role.SUPERADMIN, Role.MONITOR))
    assert not visible_resource_groups(near).exists()
    allow(place, place.owner)
    seen = [visible_resource_groups(actor).exists() for actor in (near, far, superadmin, monitor)]
    usable = [usable_resource_groups(actor).exists() for actor in (near, far, superadmin, monitor)]
    assert (seen, usable) == ([True, False, True, True], [False, False, True, False])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("changes", "asked", "refusal"),
    [
        ({"is_public": False}, {}, NotFound),
        ({"session_types": ["batch"]}, {}, InvalidInput),
        ({"max_session_slots": {"cpu": 500}}, {}, LimitExceeded),
        (
            {"max_session_slots": {"cuda": 0}},
            {"resources": {"cpu": 1, "mem": "1g", "cuda": 1}},
            LimitExceeded,
        ),
        ({"max_lifetime_s": 60}, {"type": "batch", "command": "date", "timeout_s": 61}, LimitExceeded),
    ],
)
def test_what_a_group_does_not_take_is_refused_also_in_the_last_moment(
    place: Place, monkeypatch: pytest.MonkeyPatch, changes: Any, asked: Any, refusal: type[BerthError]
) -> None:
    meant = load.enter_admission

    def meanwhile() -> None:  # behind the gate, the change would wait
        elsewhere(lambda: change(place, **changes))
        meant()

    with monkeypatch.context() as patch:
        patch.setattr(load, "enter_admission", meanwhile)
        with pytest.raises(refusal):
            place.enqueue(**asked)
    with pytest.raises(refusal) as told:
        place.enqueue(**asked)
    assert told.value.fields
    assert not place.group.sessions.exists()


def test_sessions_run_no_longer_than_their_group_allows(place: Place) -> None:
    change(place, max_lifetime_s=3600)
    assert place.enqueue().lifetime_s == 3600


def test_a_paused_group_takes_requests_and_starts_nothing(place: Place) -> None:
    change(place, is_active=False)
    first, second = place.enqueue(), place.enqueue()
    assert run_tick(place.group.pk) == []
    told = [(each.status_reason, each.queue_position) for each in map(place.fresh, (first, second))]
    assert told == [(ReasonCode.GROUP_PAUSED.value, 1), (ReasonCode.GROUP_PAUSED.value, 2)]
    assert "is paused" in str(place.fresh(first).status_message)
    third = place.enqueue()
    assert run_tick(place.group.pk) == []
    assert place.fresh(third).status == "PENDING"

    change(place, is_active=True)
    assert set(run_tick(place.group.pk)) == {first.pk, second.pk, third.pk}


def test_there_is_one_default_which_moves_and_does_not_vanish(place: Place) -> None:
    second = resource_groups_service.create_resource_group(actor=SYSTEM, name="second")
    with pytest.raises(Conflict):
        change(place, is_default=False)
    with pytest.raises(Conflict):
        resource_groups_service.delete_resource_group(actor=SYSTEM, group_id=place.group.pk)
    resource_groups_service.update_resource_group(
        actor=SYSTEM, group_id=second.pk, changes={"is_default": True}
    )
    assert list(ResourceGroup.objects.filter(is_default=True)) == [second]


def test_of_two_first_defaults_at_once_one_is_told_to_look_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = resource_groups_service.create_resource_group(actor=SYSTEM, name="second")
    ResourceGroup.objects.update(is_default=False)

    def come_first(group: ResourceGroup) -> None:  # after it has looked which one is the default
        ResourceGroup.objects.create(name="first", is_default=True)

    monkeypatch.setattr(resource_groups_service, "validate_model", come_first)
    with pytest.raises(Conflict, match="same moment"):
        resource_groups_service.create_resource_group(actor=SYSTEM, name="third", is_default=True)
    with pytest.raises(Conflict, match="same moment"):
        resource_groups_service.update_resource_group(
            actor=SYSTEM, group_id=second.pk, changes={"is_default": True}
        )


def test_deleting_wants_no_machines_and_no_live_sessions_and_keeps_the_history(place: Place) -> None:
    resource_groups_service.create_resource_group(actor=SYSTEM, name="other", is_default=True)

    def refusal() -> str:
        with pytest.raises(Conflict) as told:
            resource_groups_service.delete_resource_group(actor=SYSTEM, group_id=place.group.pk)
        assert told.value.hint
        return told.value.message

    waiting = place.enqueue()
    assert place.agent.name in refusal()
    machines_service.change_agent_state(actor=SYSTEM, agent_id=place.agent.pk, to=AgentState.RETIRED)
    assert "1 session waits" in refusal()
    machines_service.change_agent_state(actor=SYSTEM, agent_id=place.agent.pk, to=AgentState.CONNECTED)
    run_tick(place.group.pk)
    other = ResourceGroup.objects.get(name="other")
    resource_groups_service.move_agent(actor=SYSTEM, agent_id=place.agent.pk, group_id=other.pk)
    resource_groups_service.move_agent(actor=SYSTEM, agent_id=place.agent.pk, group_id=other.pk)
    assert "1 session runs" in refusal()
    place.end(waiting)

    allow(place, place.owner)
    resource_groups_service.delete_resource_group(actor=SYSTEM, group_id=place.group.pk)
    assert place.fresh(waiting).resource_group.name == place.group.name
    assert not visible_resource_groups(SYSTEM).filter(pk=place.group.pk).exists()
    assert not GroupGrant.objects.exists()
    with pytest.raises(NotFound):
        resource_groups_service.delete_resource_group(actor=SYSTEM, group_id=place.group.pk)
    assert (
        resource_groups_service.create_resource_group(actor=SYSTEM, name=place.group.name).pk
        != place.group.pk
    )


def test_no_machine_comes_back_into_a_deleted_group(place: Place) -> None:
    machines_service.change_agent_state(actor=SYSTEM, agent_id=place.agent.pk, to=AgentState.RETIRED)
    resource_groups_service.delete_resource_group(actor=SYSTEM, group_id=place.group.pk)
    with pytest.raises(NotFound):
        machines_service.change_agent_state(actor=SYSTEM, agent_id=place.agent.pk, to=AgentState.CONNECTED)


@pytest.mark.parametrize("role", [Role.USER, Role.DOMAIN_ADMIN, Role.MONITOR])
def test_superadmins_alone_write_groups(place: Place, role: Role) -> None:
    actor = actor_for(make_user(domain=place.project.domain, role=role))
    pk = place.group.pk
    writes: list[Any] = [
        lambda: resource_groups_service.create_resource_group(actor=actor, name="more"),
        lambda: resource_groups_service.update_resource_group(
            actor=actor, group_id=pk, changes={"is_active": False}
        ),
        lambda: resource_groups_service.delete_resource_group(actor=actor, group_id=pk),
        lambda: resource_groups_service.grant_resource_group(actor=actor, group_id=pk, grantee=place.owner),
        lambda: resource_groups_service.revoke_resource_group(actor=actor, group_id=pk, grant_id=1),
        lambda: resource_groups_service.move_agent(actor=actor, agent_id=place.agent.pk, group_id=pk),
    ]
    for write in writes:
        with pytest.raises(PermissionDenied):
            write()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "Big Group"}, "name"),
        ({"name": "taken"}, "name"),
        ({"scheduler": "luck"}, "scheduler"),
        ({"session_types": []}, "session_types"),
        ({"session_types": ["nap"]}, "session_types"),
        ({"max_session_slots": {"cpu": -1}}, "max_session_slots"),
        ({"max_session_slots": {"No Slot": 1}}, "max_session_slots"),
        ({"max_lifetime_s": 0}, "max_lifetime_s"),
        ({"ageing_s": 0}, "ageing_s"),
    ],
)
def test_wrong_values_are_refused_at_their_field(place: Place, changes: dict[str, Any], field: str) -> None:
    resource_groups_service.create_resource_group(actor=SYSTEM, name="taken")
    with pytest.raises(InvalidInput) as refusal:
        change(place, **changes)
    assert set(refusal.value.fields) == {field}


def test_a_name_that_another_took_at_the_same_moment_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = resource_groups_service.create_resource_group(actor=SYSTEM, name="other")
    monkeypatch.setattr(
        resource_groups_service, "validate_model", lambda group: None
    )  # it looked before the other was written
    with pytest.raises(InvalidInput, match="same moment") as refused:
        resource_groups_service.create_resource_group(actor=SYSTEM, name="other")
    assert list(refused.value.fields) == ["name"]
    with pytest.raises(InvalidInput, match="same moment"):
        change(place, name="other")
    assert ResourceGroup.objects.filter(name="other").get() == other
