"""Users and projects: visibility, permissions to write, and permissions that follow roles."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from guardian.shortcuts import get_perms

from accounts import selectors
from accounts.core import token_secrets
from accounts.core.roles import DOMAIN_PERMISSIONS, PROJECT_PERMISSIONS, ProjectRole, Role
from accounts.credentials import keypairs as credentials_keypairs
from accounts.logins.service import Login, valid_logins
from accounts.models import Domain, KeyPair, Membership, SignInLink, User
from accounts.tenancy import offboarding, service
from common import clock
from common.actors import SYSTEM, Actor, ActorKind
from common.errors import BerthError, Conflict, InvalidInput, LimitExceeded, NotFound, PermissionDenied
from common.models import AuditEntry
from tests.conftest import People
from tests.factories import PASSWORD, actor_for, make_domain, make_project, make_user
from tests.factories_limits import limit

pytestmark = pytest.mark.django_db

NOT_SUPERADMINS = ("domain_admin", "project_admin", "member", "outsider", "stranger")


def update(user: User, actor: Actor = SYSTEM, **changes: Any) -> User:
    values: dict[str, Any] = {
        "email": user.email,
        "name": user.name,
        "domain": user.domain,
        "role": Role(user.role),
    }
    if (is_active := changes.pop("is_active", None)) is not None:
        (offboarding.reopen_user if is_active else offboarding.close_user)(actor=actor, user_id=user.pk)
    return service.update_user(actor=actor, user_id=user.pk, **{**values, **changes})


def create(email: str) -> User:
    return service.create_user(
        actor=SYSTEM, email=email, password=PASSWORD, domain=make_domain(), role=Role.USER
    )


# Reads


@pytest.mark.parametrize(
    ("person", "sees"),
    [
        ("superadmin", True),
        ("domain_admin", True),
        ("project_admin", True),
        ("member", True),
        ("outsider", False),
        ("stranger", False),
    ],
)
def test_a_project_is_visible_to_its_members_and_administrators(
    people: People, person: str, sees: bool
) -> None:
    visible = selectors.visible_projects(actor_for(getattr(people, person)))
    assert visible.filter(pk=people.project.pk).exists() is sees


def test_only_members_can_use_a_visible_project(people: People) -> None:
    name = people.project.name
    assert selectors.access_usable_project(actor_for(people.member), name) == people.project
    with pytest.raises(PermissionDenied):
        selectors.access_usable_project(actor_for(people.domain_admin), name)


def test_a_hidden_project_and_an_absent_one_answer_alike(people: People) -> None:
    answers = []
    for name in (people.project.name, "no-such-project"):
        with pytest.raises(NotFound) as refusal:
            selectors.access_usable_project(actor_for(people.outsider), name)
        answers.append((refusal.value.message.replace(name, "…"), refusal.value.hint, refusal.value.code))
    assert answers[0] == answers[1]


def test_a_project_of_a_closed_domain_is_gone(people: People) -> None:
    Domain.objects.filter(pk=people.domain.pk).update(is_active=False)
    assert not selectors.visible_projects(actor_for(people.superadmin)).filter(domain=people.domain).exists()


def test_moved_user_sees_nothing_of_the_old_domain(people: People) -> None:
    service.remove_member(actor=SYSTEM, project=people.project, user=people.project_admin)
    moved = update(people.project_admin, domain=people.stranger.domain)
    assert not selectors.visible_projects(actor_for(moved)).exists()
    assert not list(selectors.administered_project_ids(actor_for(moved)))
    assert get_perms(User.objects.get(pk=moved.pk), people.project) == []


def test_event_listeners_follow_administered_objects(people: People) -> None:
    listeners = selectors.live_update_listeners(
        [people.superadmin, people.domain_admin, people.project_admin, people.member]
    )
    assert listeners[people.superadmin.pk].receives_all
    assert listeners[people.domain_admin.pk].overseen_domain_id == people.domain.pk
    assert listeners[people.project_admin.pk].admin_project_ids == {people.project.pk}
    assert listeners[people.member.pk].admin_project_ids == frozenset()


# Permissions follow roles


@pytest.mark.parametrize("role", list(Role))
def test_the_object_permissions_on_a_domain_are_those_of_the_role(role: Role) -> None:
    user = update(make_user(role=Role.DOMAIN_ADMIN), role=role)
    user = User.objects.get(pk=user.pk)
    granted = set() if user.is_superuser else set(get_perms(user, user.domain))
    assert granted == set(DOMAIN_PERMISSIONS[role])


def test_the_object_permissions_on_a_project_are_those_of_the_membership(people: People) -> None:
    def permissions() -> set[str]:
        return set(get_perms(User.objects.get(pk=people.member.pk), people.project))

    assert permissions() == set(PROJECT_PERMISSIONS[ProjectRole.MEMBER])
    service.add_member(actor=SYSTEM, project=people.project, user=people.member, role=ProjectRole.ADMIN)
    assert permissions() == set(PROJECT_PERMISSIONS[ProjectRole.ADMIN])
    service.add_member(actor=SYSTEM, project=people.project, user=people.member, role=ProjectRole.MEMBER)
    assert permissions() == set(PROJECT_PERMISSIONS[ProjectRole.MEMBER])
    service.remove_member(actor=SYSTEM, project=people.project, user=people.member)
    assert permissions() == set()


@pytest.mark.parametrize("person", NOT_SUPERADMINS)
def test_only_superadmins_make_superadmins(people: People, person: str) -> None:
    user = getattr(people, person)
    actor = actor_for(user)
    attempts = [
        lambda: service.create_domain(actor=actor, name="mine"),
        lambda: service.create_user(
            actor=actor, email="x@berth.example", password=PASSWORD, domain=user.domain, role=Role.SUPERADMIN
        ),
        lambda: update(user, actor, role=Role.SUPERADMIN),
        lambda: update(people.superadmin, actor, role=Role.USER),
        lambda: service.create_sign_in_link(actor=actor, user=people.superadmin),
    ]
    for attempt in attempts:
        with pytest.raises((PermissionDenied, NotFound)):
            attempt()
    user.refresh_from_db()
    assert user.role == getattr(people, person).role != Role.SUPERADMIN


def test_a_superadmin_who_was_dismissed_meanwhile_writes_nothing(people: People) -> None:
    stale = actor_for(people.superadmin)
    make_user(role=Role.SUPERADMIN)
    update(people.superadmin, role=Role.USER)
    with pytest.raises(PermissionDenied):
        update(people.superadmin, stale, role=Role.SUPERADMIN)


@pytest.mark.parametrize("changes", [{"role": Role.USER}, {"is_active": False}])
def test_superadmins_cannot_dismiss_themselves(people: People, changes: dict[str, Any]) -> None:
    with pytest.raises(Conflict):
        update(people.superadmin, actor_for(people.superadmin), **changes)


def test_people_can_only_join_projects_of_their_domain(people: People) -> None:
    with pytest.raises(InvalidInput):
        service.add_member(actor=SYSTEM, project=people.project, user=people.stranger)


def test_a_closed_superadmin_account_has_no_rights() -> None:
    make_user(role=Role.SUPERADMIN)
    user = update(make_user(role=Role.SUPERADMIN), is_active=False)
    assert not user.is_superuser
    assert not user.is_staff
    assert not user.has_perm("accounts.manage_domain", user.domain)


# Rows


def test_emails_are_kept_in_lower_case_and_taken_once() -> None:
    user = create("Ada.Lovelace@Berth.Example")
    assert user.email == "ada.lovelace@berth.example"
    with pytest.raises(InvalidInput) as refusal:
        create("ADA.lovelace@berth.example")
    assert "email" in refusal.value.fields


@pytest.mark.parametrize("column", [{"email": "Upper@berth.example"}, {"role": "god"}])
def test_the_database_refuses_people_that_break_the_rules(column: dict[str, str]) -> None:
    user = make_user()
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.filter(pk=user.pk).update(**column)


def test_a_weak_password_is_refused_with_its_reason() -> None:
    with pytest.raises(InvalidInput) as refusal:
        service.create_user(
            actor=SYSTEM, email="a@berth.example", password="short", domain=make_domain(), role=Role.USER
        )
    assert "password" in refusal.value.fields


@pytest.mark.parametrize("name", ["", "Upper", "-dash", "a b", "x" * 65, "naïve", "a/b"])
def test_names_of_projects_are_plain(name: str) -> None:
    with pytest.raises(InvalidInput):
        service.create_project(actor=SYSTEM, domain=make_domain(), name=name)


def test_writes_are_in_the_access_log(people: People) -> None:
    credentials_keypairs.create_keypair(actor=actor_for(people.member), name="laptop")
    entry = AuditEntry.objects.get(action="accounts.create_keypair")
    assert (entry.actor_id, entry.actor_label) == (people.member.pk, people.member.email)
    assert PASSWORD not in str(list(AuditEntry.objects.values()))


# Keypairs


def test_only_the_hash_of_a_secret_is_kept(people: People) -> None:
    keypair, token = credentials_keypairs.create_keypair(actor=actor_for(people.member), name="laptop")
    access_key, secret = token.split(".")
    row = KeyPair.objects.filter(pk=keypair.pk).values().get()
    assert row["access_key"] == access_key
    assert secret not in str(row)
    assert row["secret_hash"] == token_secrets.hash_secret(secret)


def test_a_keypair_works_until_it_or_its_owner_ends(people: People) -> None:
    at = clock.now()
    keypair, _ = credentials_keypairs.create_keypair(
        actor=actor_for(people.member), name="short", expires_at=at + timedelta(hours=1)
    )
    assert credentials_keypairs.find_usable_keypair(keypair.access_key) == keypair
    assert credentials_keypairs.find_usable_keypair(keypair.access_key, at + timedelta(hours=2)) is None
    update(people.member, is_active=False)
    assert credentials_keypairs.find_usable_keypair(keypair.access_key) is None
    update(people.member, is_active=True)
    Domain.objects.filter(pk=people.domain.pk).update(is_active=False)
    assert credentials_keypairs.find_usable_keypair(keypair.access_key) is None


def test_a_keypair_made_with_a_token_ends_no_later_than_it(people: People) -> None:
    ends_at = clock.now() + timedelta(hours=1)
    maker, _ = credentials_keypairs.create_keypair(
        actor=actor_for(people.member), name="short", expires_at=ends_at
    )
    program = Actor(
        kind=ActorKind.TOKEN, user_id=people.member.pk, label=people.member.email, keypair_id=maker.pk
    )
    for asked in (None, ends_at + timedelta(days=1)):
        made, _ = credentials_keypairs.create_keypair(actor=program, name="child", expires_at=asked)
        assert made.expires_at == ends_at


def test_keypairs_per_person_are_limited(people: People) -> None:
    limit(people.member, max_keypairs=1)
    credentials_keypairs.create_keypair(actor=actor_for(people.member), name="one")
    with pytest.raises(LimitExceeded):
        credentials_keypairs.create_keypair(actor=actor_for(people.member), name="two")
    credentials_keypairs.create_keypair(actor=actor_for(people.outsider), name="another's")


@pytest.mark.parametrize("name", ["", "   ", "x" * 61, "two\nlines"])
def test_a_keypair_needs_a_readable_name(people: People, name: str) -> None:
    with pytest.raises(InvalidInput):
        credentials_keypairs.create_keypair(actor=actor_for(people.member), name=name)


def test_keypairs_are_hidden_from_others_even_superadmins(people: People) -> None:
    keypair, _ = credentials_keypairs.create_keypair(actor=actor_for(people.member), name="mine")
    with pytest.raises(NotFound):
        credentials_keypairs.delete_keypair(actor=actor_for(people.superadmin), keypair_id=keypair.pk)


# Sign-in links


def test_a_sign_in_link_works_once(people: People) -> None:
    code = service.create_sign_in_link(actor=SYSTEM, user=people.member)
    assert service.redeem_sign_in_link(actor=SYSTEM, code=code) == people.member
    with pytest.raises(NotFound):
        service.redeem_sign_in_link(actor=SYSTEM, code=code)


def test_a_sign_in_link_ends_after_its_time(people: People) -> None:
    code = service.create_sign_in_link(actor=SYSTEM, user=people.member)
    with clock.frozen_at(clock.now() + service.SIGN_IN_LINK_LIFETIME), pytest.raises(NotFound):
        service.redeem_sign_in_link(actor=SYSTEM, code=code)


def test_a_sign_in_link_does_not_open_a_closed_account(people: People) -> None:
    code = service.create_sign_in_link(actor=SYSTEM, user=people.member)
    update(people.member, is_active=False)
    with pytest.raises(NotFound):
        service.redeem_sign_in_link(actor=SYSTEM, code=code)


def test_old_sign_in_links_are_swept_when_a_new_one_is_made(people: People) -> None:
    service.create_sign_in_link(actor=SYSTEM, user=people.member)
    SignInLink.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    service.create_sign_in_link(actor=SYSTEM, user=people.outsider)
    assert SignInLink.objects.get().user == people.outsider


# Logins that outlast a request


def test_live_logins_take_the_same_queries_for_any_number(people: People) -> None:
    made = [
        credentials_keypairs.create_keypair(actor=actor_for(people.member), name=str(n))[0] for n in range(5)
    ]
    logins = [Login(user_id=people.member.pk, keypair_id=keypair.pk) for keypair in made]
    with CaptureQueriesContext(
        connection,
    ) as one:
        valid_logins(logins[:1])
    with CaptureQueriesContext(connection) as many:
        assert set(valid_logins([*logins, Login(user_id=people.member.pk, session_key="absent")])) == set(
            logins
        )
    assert len(many) <= len(one) + 1 <= 3


def test_a_closed_domain_ends_the_logins_of_its_people(people: People) -> None:
    keypair, _ = credentials_keypairs.create_keypair(actor=actor_for(people.member), name="laptop")
    login = Login(user_id=people.member.pk, keypair_id=keypair.pk)
    assert login in valid_logins([login])
    Domain.objects.filter(pk=people.domain.pk).update(is_active=False)
    assert valid_logins([login]) == {}


# At the same moment


def together(*steps: Any) -> list[Any]:
    """Run each step on a connection of its own at once; results, or the refusals."""

    def run(step: Any) -> Any:
        try:
            return step()
        except BerthError as refusal:
            return refusal
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(steps)) as pool:
        return [future.result() for future in [pool.submit(run, step) for step in steps]]


@pytest.mark.django_db(transaction=True)
def test_a_sign_in_link_opened_twice_at_once_signs_in_once(people: People) -> None:
    code = service.create_sign_in_link(actor=SYSTEM, user=people.member)
    results = together(*[lambda: service.redeem_sign_in_link(actor=SYSTEM, code=code)] * 4)
    assert len([result for result in results if isinstance(result, User)]) == 1


@pytest.mark.django_db(transaction=True)
def test_superadmins_dismissing_each_other_concurrently_leave_one() -> None:
    domain = make_domain()
    first, second = (make_user(domain=domain, role=Role.SUPERADMIN) for _ in range(2))
    together(
        lambda: update(second, actor_for(first), role=Role.USER),
        lambda: update(first, actor_for(second), role=Role.USER),
    )
    assert User.objects.filter(role=Role.SUPERADMIN).count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_limit_of_keypairs_holds_under_concurrency() -> None:
    user = make_user(member_of=make_project())
    limit(user, max_keypairs=2)
    together(*[lambda: credentials_keypairs.create_keypair(actor=actor_for(user), name="x")] * 5)
    assert KeyPair.objects.filter(user=user).count() == 2
    assert Membership.objects.filter(user=user).exists()


@pytest.mark.django_db(transaction=True)
def test_concurrent_removal_from_two_projects_keeps_no_permission(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    projects = [people.project, make_project(people.domain)]
    service.add_member(actor=SYSTEM, project=projects[1], user=people.member)
    grant, both = service.grant_project_permissions, threading.Barrier(2)

    def grant_together(user: User) -> None:
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=0.5)
        grant(user)

    monkeypatch.setattr(service, "grant_project_permissions", grant_together)
    removals = [
        partial(service.remove_member, actor=SYSTEM, project=project, user=people.member)
        for project in projects
    ]
    together(*removals)
    assert [list(get_perms(people.member, project)) for project in projects] == [[], []]
