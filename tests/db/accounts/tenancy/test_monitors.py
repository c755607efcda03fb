"""Monitors read what administrators read, and change nothing."""

import pytest

from accounts import selectors
from accounts.core.authorization import Action
from accounts.core.roles import ProjectRole, Role
from accounts.models import User
from accounts.tenancy.service import add_member, update_user
from common.actors import SYSTEM
from common.errors import PermissionDenied
from sessions_app.selectors import Action as SessionAction
from sessions_app.selectors import access_session, visible_sessions
from tests.conftest import People
from tests.factories import actor_for, make_project, make_user
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db


def monitor_of(people: People, role: Role) -> User:
    return make_user(domain=people.domain, role=role)


@pytest.mark.parametrize(("role", "reaches"), [(Role.DOMAIN_MONITOR, False), (Role.MONITOR, True)])
def test_a_monitor_sees_people_and_projects_as_far_as_the_role_reaches(
    people: People, role: Role, reaches: bool
) -> None:
    actor = actor_for(monitor_of(people, role))
    elsewhere = make_project(people.stranger.domain)
    assert people.outsider in selectors.visible_users(actor)
    assert people.project in selectors.overseen_projects(actor)
    assert (people.stranger in selectors.visible_users(actor)) is reaches
    assert (elsewhere in selectors.known_projects(actor)) is reaches
    assert (people.stranger.domain in selectors.visible_domains(actor)) is reaches
    assert not selectors.manageable_projects(actor).exists()


@pytest.mark.parametrize("role", [Role.DOMAIN_MONITOR, Role.MONITOR])
def test_a_monitor_changes_nothing_even_as_admin_of_a_project(people: People, role: Role) -> None:
    monitor = monitor_of(people, role)
    add_member(actor=SYSTEM, project=people.project, user=monitor, role=ProjectRole.ADMIN)
    actor = actor_for(monitor)
    assert not selectors.administered_project_ids(actor).exists()
    for refused in (
        lambda: selectors.access_project(actor, people.project.pk, Action.MANAGE_MEMBERS),
        lambda: selectors.access_user(actor, people.member.pk, Action.EDIT),
        lambda: selectors.access_domain(actor, people.domain.pk, Action.EDIT),
        lambda: selectors.require_superadmin(actor),
    ):
        with pytest.raises(PermissionDenied):
            refused()


@pytest.mark.parametrize("role", [Role.DOMAIN_MONITOR, Role.MONITOR])
def test_a_monitor_sees_a_session_from_outside(role: Role) -> None:
    place = make_place()
    session = place.run()
    actor = actor_for(make_user(domain=place.project.domain, role=role))
    assert session in visible_sessions(actor)
    assert access_session(actor, session.pk, SessionAction.VIEW) == session
    for action in set(SessionAction) - {SessionAction.VIEW}:
        with pytest.raises(PermissionDenied, match="only its owner"):
            access_session(actor, session.pk, action)


@pytest.mark.parametrize(("role", "is_given"), [(Role.DOMAIN_MONITOR, True), (Role.MONITOR, False)])
def test_a_domain_admin_makes_monitors_of_the_domain_alone(
    people: People, role: Role, is_given: bool
) -> None:
    actor = actor_for(people.domain_admin)
    if is_given:
        assert update_user(actor=actor, user_id=people.member.pk, role=role).role == role
        return
    with pytest.raises(PermissionDenied, match="may not give"):
        update_user(actor=actor, user_id=people.member.pk, role=role)


def test_a_project_admin_learns_nothing_of_a_member_s_other_projects(people: People) -> None:
    other = make_project(people.domain, name="secret-plans")
    add_member(actor=SYSTEM, project=other, user=people.member)
    actor = actor_for(people.project_admin)
    seen = selectors.with_projects(actor, selectors.visible_users(actor)).get(pk=people.member.pk)
    assert [membership.project for membership in seen.memberships.all()] == [people.project]
    own = actor_for(people.member)
    assert selectors.known_memberships(own).filter(user=people.member).count() == 2
