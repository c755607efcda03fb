"""Permissions of domain admins and project admins, and their limits."""

from typing import Any

import pytest

from accounts import selectors
from accounts.core.authorization import Action
from accounts.core.roles import ProjectRole, Role
from accounts.models import Domain, Membership, Project, User
from accounts.tenancy import archiving, offboarding, service
from common import clock
from common.actors import ANONYMOUS, SYSTEM
from common.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from tests.conftest import People
from tests.db.accounts.tenancy.test_users import together, update
from tests.factories import PASSWORD, actor_for, make_domain, make_project, make_user
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db


def add_person(people: People, by: User, role: Role = Role.USER, **changes: Any) -> User:
    wanted = {"email": "new@berth.example", "password": PASSWORD, "domain": people.domain, **changes}
    return service.create_user(actor=actor_for(by), role=role, **wanted)


# People


@pytest.mark.parametrize("role", [Role.USER, Role.DOMAIN_ADMIN])
def test_a_domain_admin_adds_and_changes_people_of_the_domain(people: People, role: Role) -> None:
    person = add_person(people, people.domain_admin, role)
    changed = update(person, actor_for(people.domain_admin), name="Ada", role=Role.DOMAIN_ADMIN)
    assert (changed.name, changed.role) == ("Ada", Role.DOMAIN_ADMIN)


@pytest.mark.parametrize("person", ["project_admin", "member", "stranger"])
def test_only_domain_admins_add_users(people: People, person: str) -> None:
    with pytest.raises(PermissionDenied):
        add_person(people, getattr(people, person))


def test_a_domain_admin_touches_no_superadmin_though_they_see_one(people: People) -> None:
    actor = actor_for(people.domain_admin)
    assert selectors.access_user(actor, people.superadmin.pk, Action.VIEW) == people.superadmin
    for attempt in (
        lambda: update(people.superadmin, actor, name="x"),
        lambda: offboarding.close_user(actor=actor, user_id=people.superadmin.pk),
        lambda: offboarding.purge_user(actor=actor, user_id=people.superadmin.pk),
    ):
        with pytest.raises(PermissionDenied):
            attempt()


def test_domain_admin_cannot_move_users_to_another_domain(people: People) -> None:
    with pytest.raises(PermissionDenied):
        update(people.outsider, actor_for(people.domain_admin), domain=people.stranger.domain)


def test_a_domain_admin_changes_no_own_role(people: People) -> None:
    with pytest.raises(Conflict):
        update(people.domain_admin, actor_for(people.domain_admin), role=Role.USER)


def test_a_move_is_refused_with_what_ties_the_person_to_the_old_domain() -> None:
    place = make_place()
    place.run(name="train")
    elsewhere = make_domain()
    with pytest.raises(Conflict) as refusal:
        update(place.owner, domain=elsewhere)
    assert "session “train”" in refusal.value.message
    assert place.project.name in refusal.value.message
    assert refusal.value.fields["domain"]


def test_users_are_visible_to_their_administrators(people: People) -> None:
    def seen(by: User) -> set[int]:
        return set(selectors.visible_users(actor_for(by)).values_list("pk", flat=True))

    assert seen(people.member) == {people.member.pk}
    assert seen(people.project_admin) == {people.project_admin.pk, people.member.pk}
    assert seen(people.stranger) == {people.stranger.pk}
    assert seen(people.domain_admin) == set(people.domain.users.values_list("pk", flat=True))
    assert seen(people.superadmin) == set(User.objects.values_list("pk", flat=True))


def test_user_without_password_signs_in_by_a_link_of_the_creator(people: People) -> None:
    person = add_person(people, people.domain_admin, password=None)
    code = service.create_sign_in_link(actor=actor_for(people.domain_admin), user=person)
    assert service.redeem_sign_in_link(actor=SYSTEM, code=code) == person


def test_a_domain_admin_makes_no_link_into_the_account_of_another(people: People) -> None:
    came_by_a_provider = add_person(people, people.domain_admin, password=None)
    User.objects.filter(pk=came_by_a_provider.pk).update(last_login=clock.now())
    came_by_a_provider.refresh_from_db()
    for person in (people.member, came_by_a_provider):
        with pytest.raises(PermissionDenied):
            service.create_sign_in_link(actor=actor_for(people.domain_admin), user=person)
        with pytest.raises(PermissionDenied):
            service.update_user(
                actor=actor_for(people.domain_admin), user_id=person.pk, email="mine@berth.example"
            )


# Members


def test_a_project_admin_manages_members_from_the_domain(people: People) -> None:
    actor = actor_for(people.project_admin)
    person = selectors.find_domain_user(people.project, people.outsider.email.upper())
    service.add_member(actor=actor, project=people.project, user=person, role=ProjectRole.ADMIN)
    service.remove_member(actor=actor, project=people.project, user=people.member)
    assert set(people.project.memberships.values_list("user_id", flat=True)) == {
        people.project_admin.pk,
        people.outsider.pk,
    }


@pytest.mark.parametrize("person", ["member", "outsider", "stranger"])
def test_only_admins_manage_members(people: People, person: str) -> None:
    actor = actor_for(getattr(people, person))
    for attempt in (
        lambda: service.add_member(actor=actor, project=people.project, user=people.outsider),
        lambda: service.remove_member(actor=actor, project=people.project, user=people.member),
    ):
        with pytest.raises((NotFound, PermissionDenied)):
            attempt()


def test_a_project_admin_of_another_project_manages_none_of_these(people: People) -> None:
    other = make_user(admin_of=make_project(people.domain))
    with pytest.raises(NotFound):
        service.add_member(actor=actor_for(other), project=people.project, user=other)


def test_people_of_other_domains_and_with_closed_accounts_are_not_found(people: People) -> None:
    offboarding.close_user(actor=SYSTEM, user_id=people.outsider.pk)
    for email in (people.stranger.email, people.outsider.email, "nobody@berth.example"):
        with pytest.raises(NotFound):
            selectors.find_domain_user(people.project, email)
    with pytest.raises(Conflict):
        service.add_member(actor=SYSTEM, project=people.project, user=people.outsider)


# Projects and domains


def test_a_domain_admin_makes_changes_archives_and_purges_projects(people: People) -> None:
    actor = actor_for(people.domain_admin)
    project = service.create_project(actor=actor, domain=people.domain, name="vision")
    with pytest.raises(Conflict):
        archiving.purge_project(actor=actor, project_id=project.pk)
    archived = archiving.update_project(
        actor=actor, project_id=project.pk, name="vision2", title="Vision", is_active=False
    )
    assert archived in selectors.manageable_projects(actor)
    assert archived not in selectors.visible_projects(actor)
    archiving.purge_project(actor=actor, project_id=project.pk)
    assert not Project.objects.filter(pk=project.pk).exists()


@pytest.mark.parametrize("person", ["project_admin", "member", "outsider", "stranger"])
def test_only_admins_change_projects(people: People, person: str) -> None:
    actor, project_id = actor_for(getattr(people, person)), people.project.pk
    for attempt in (
        lambda: service.create_project(actor=actor, domain=people.domain, name="mine"),
        lambda: archiving.update_project(
            actor=actor, project_id=project_id, name="x", title="", is_active=False
        ),
        lambda: archiving.purge_project(actor=actor, project_id=project_id),
    ):
        with pytest.raises((NotFound, PermissionDenied)):
            attempt()


def test_a_project_with_live_sessions_is_not_archived_and_one_with_history_not_purged() -> None:
    place = make_place()
    session = place.run(name="train")
    with pytest.raises(Conflict, match="“train”"):
        archive(place.project)
    place.end(session)
    archive(place.project)
    with pytest.raises(Conflict, match="1 session"):
        archiving.purge_project(actor=SYSTEM, project_id=place.project.pk)


def archive(project: Project) -> None:
    archiving.update_project(
        actor=SYSTEM, project_id=project.pk, name=project.name, title="", is_active=False
    )


def close_domain(domain: Domain, **changes: Any) -> Domain:
    wanted = {"name": domain.name, "title": "", "is_active": False, "actor": SYSTEM, **changes}
    return archiving.update_domain(domain_id=domain.pk, **wanted)


def test_domains_are_closed_and_purged_by_superadmins_when_they_are_empty(people: People) -> None:
    domain = make_domain()
    with pytest.raises(Conflict, match="open"):
        archiving.purge_domain(actor=SYSTEM, domain_id=domain.pk)
    close_domain(domain, actor=actor_for(people.superadmin))
    project = make_project(domain)
    with pytest.raises(Conflict, match="projects: 1"):
        archiving.purge_domain(actor=SYSTEM, domain_id=domain.pk)
    project.delete()
    archiving.purge_domain(actor=SYSTEM, domain_id=domain.pk)
    assert not Domain.objects.filter(pk=domain.pk).exists()


def test_a_domain_with_people_is_not_purged(people: People) -> None:
    close_domain(people.stranger.domain)
    with pytest.raises(Conflict, match="people: 1"):
        archiving.purge_domain(actor=SYSTEM, domain_id=people.stranger.domain_id)


def test_the_domain_of_all_superadmins_is_not_closed(people: People) -> None:
    with pytest.raises(Conflict):
        close_domain(people.domain)
    make_user(role=Role.SUPERADMIN)
    assert not close_domain(people.domain).is_active


@pytest.mark.parametrize("person", ["domain_admin", "member"])
def test_only_superadmins_change_a_domain(people: People, person: str) -> None:
    with pytest.raises(PermissionDenied):
        close_domain(people.domain, actor=actor_for(getattr(people, person)))


def test_a_domain_that_is_hidden_is_absent(people: People) -> None:
    with pytest.raises(NotFound):
        close_domain(people.domain, actor=actor_for(people.stranger))
    with pytest.raises(NotFound):
        selectors.find_domain(actor_for(people.stranger), people.domain.name)


# The last superadmin


def test_the_last_superadmin_stays_even_against_berth_itself(people: People) -> None:
    with pytest.raises(Conflict):
        update(people.superadmin, role=Role.USER)
    with pytest.raises(Conflict):
        offboarding.close_user(actor=SYSTEM, user_id=people.superadmin.pk)


def test_a_superadmin_of_a_closed_domain_does_not_count(people: People) -> None:
    other = make_user(role=Role.SUPERADMIN)
    close_domain(other.domain)
    with pytest.raises(Conflict):
        update(people.superadmin, role=Role.USER)


@pytest.mark.django_db(transaction=True)
def test_superadmins_closing_each_other_concurrently_leave_one() -> None:
    domain = make_domain()
    first, second = (make_user(domain=domain, role=Role.SUPERADMIN) for _ in range(2))
    together(
        lambda: offboarding.close_user(actor=actor_for(first), user_id=second.pk),
        lambda: offboarding.close_user(actor=actor_for(second), user_id=first.pk),
    )
    assert User.objects.filter(role=Role.SUPERADMIN, is_active=True).count() == 1


@pytest.mark.django_db(transaction=True)
def test_domain_admins_demoting_each_other_concurrently_leave_one() -> None:
    domain = make_domain()
    first, second = (make_user(domain=domain, role=Role.DOMAIN_ADMIN) for _ in range(2))
    together(
        lambda: update(second, actor_for(first), role=Role.USER),
        lambda: update(first, actor_for(second), role=Role.USER),
    )
    assert User.objects.filter(role=Role.DOMAIN_ADMIN).count() == 1


@pytest.mark.django_db(transaction=True)
def test_user_closed_while_added_to_a_project_has_no_membership() -> None:
    project = make_project()
    person = make_user(domain=project.domain)
    together(
        lambda: service.add_member(actor=SYSTEM, project=project, user=person),
        lambda: offboarding.close_user(actor=SYSTEM, user_id=person.pk),
    )
    assert not Membership.objects.filter(user=person).exists()


def test_new_owner_is_another_active_user_of_the_domain(people: People) -> None:
    for heir in (None, people.stranger, people.outsider):
        with pytest.raises(InvalidInput):
            offboarding.close_user(
                actor=SYSTEM,
                user_id=people.outsider.pk,
                folders=offboarding.Folders.HAND_OVER,
                new_owner=heir,
            )


def test_only_superadmins_choose_the_address_of_who_has_a_password(people: People) -> None:
    """A link for a forgotten password goes there."""
    admin = actor_for(people.domain_admin)
    with pytest.raises(PermissionDenied):
        service.update_user(actor=admin, user_id=people.member.pk, email="mine@berth.example")
    service.update_user(actor=admin, user_id=people.member.pk, email=people.member.email, name="Same")


def test_links_from_before_a_promotion_or_password_are_invalid(people: People) -> None:
    superadmin = actor_for(people.superadmin)
    code = service.create_sign_in_link(actor=superadmin, user=people.member)
    service.update_user(actor=superadmin, user_id=people.member.pk, role=Role.DOMAIN_ADMIN)
    with pytest.raises(NotFound):
        service.redeem_sign_in_link(actor=ANONYMOUS, code=code)

    first, second = (service.create_sign_in_link(actor=superadmin, user=people.member) for _ in range(2))
    service.redeem_sign_in_link(actor=ANONYMOUS, code=first)
    with pytest.raises(NotFound):
        service.redeem_sign_in_link(actor=ANONYMOUS, code=second)
