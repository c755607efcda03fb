"""Remains of purged users, archived projects and closed domains can be deleted, or the refusal says how."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.db.models import DO_NOTHING, PROTECT, RESTRICT, ForeignKey, Model
from django.test import Client

from accounts.budgets import service as budgets_service
from accounts.core.budget_arithmetic import Period, Unit
from accounts.core.limits import Level
from accounts.models import Domain, KeyPair, Project, ResourcePolicy, User
from accounts.policies import service as policies_service
from accounts.tenancy import archiving, offboarding
from agents.models import GroupGrant, Reservation, ResourceGroup
from agents.reservations.selectors import current_reservations
from agents.reservations.service import cancel_reservation
from agents.resource_groups.service import (
    create_resource_group,
    delete_resource_group,
    grant_resource_group,
    revoke_resource_group,
)
from common import clock
from common.actors import SYSTEM
from common.errors import Conflict
from images.models import ContainerImage, Registry
from scheduler.fairness.weights import set_share_weight
from scheduler.models import ShareWeight
from sessions_app.models import ResourcePreset, SessionTemplate
from tests.conftest import People
from tests.factories import actor_for, make_domain, make_token, make_user
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place
from tests.waiting import wait_until
from vfolders.models import StorageHost

pytestmark = pytest.mark.django_db

# Foreign keys that keep a row from being deleted, of rows that people delete, and the test that shows how it comes free.
HELD = {
    "accounts.Domain.policy": "named: test_what_the_closed_still_hold_is_named_and_can_be_taken_from_them",
    "accounts.Project.policy": "named: test_what_the_closed_still_hold_is_named_and_can_be_taken_from_them",
    "accounts.User.policy": "let go: test_nothing_of_a_purged_person_keeps_a_thing_from_being_deleted",
    "accounts.KeyPair.policy": "let go: test_nothing_of_a_purged_person_keeps_a_thing_from_being_deleted",
    "accounts.User.domain": "moved: test_a_nameless_row_does_not_keep_its_domain",
    "accounts.Project.domain": "named: tests/db/accounts/tenancy/test_delegation.py",
    "images.ContainerImage.registry": "named: test_what_history_needs_says_what_to_do_instead",
    "sessions_app.ComputeSession.image": "named: test_what_history_needs_says_what_to_do_instead",
    "vfolders.VFolder.host": "named: test_what_history_needs_says_what_to_do_instead",
    # History: of a person the nameless row stays, a project or domain is refused with the count.
    **{
        f"sessions_app.{model}.{field}": "named: tests/db/accounts/tenancy/test_delegation.py, tests/db/accounts/tenancy/test_offboarding.py"
        for model in ("ComputeSession", "SessionArray")
        for field in ("owner", "project", "domain")
    },
    **{
        f"vfolders.VFolder.{field}": "named: tests/db/accounts/tenancy/test_offboarding.py"
        for field in ("owner", "project", "domain")
    },
}
DELETED_BY_PEOPLE = (
    User, Project, Domain, ResourcePolicy, KeyPair, ContainerImage, Registry, StorageHost, GroupGrant, Reservation, ResourcePreset, SessionTemplate,
)  # fmt: skip


def test_whatever_keeps_a_row_from_being_deleted_has_its_test() -> None:
    found = {
        f"{model._meta.app_label}.{model.__name__}.{field.name}"
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if isinstance(field, ForeignKey)
        and field.related_model in DELETED_BY_PEOPLE
        and field.remote_field.on_delete in (PROTECT, RESTRICT, DO_NOTHING)
        and field.db_constraint
    }
    assert found == HELD.keys()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    make_storage_host(tmp_path)
    return make_place()


def purge(place: Place) -> User:
    """The owner as a nameless row, which an ended session refers to."""
    place.end(place.run())
    case = offboarding.close_user(actor=SYSTEM, user_id=place.owner.pk)
    offboarding.continue_offboarding(case.pk)
    offboarding.purge_user(actor=SYSTEM, user_id=place.owner.pk)
    return User.objects.get(pk=place.owner.pk)


Thing = Callable[[Place, Model], Callable[[], None]]


def a_policy(_place: Place, holder: Model) -> Callable[[], None]:
    policy = limit(holder, max_sessions=3)  # type: ignore[arg-type]
    return lambda: policies_service.delete_policy(actor=SYSTEM, policy_id=policy.pk)


def a_policy_of_a_token(_place: Place, holder: Model) -> Callable[[], None]:
    make_token(holder)  # type: ignore[arg-type]
    policy = limit(KeyPair.objects.get(), max_sessions=3)
    return lambda: policies_service.delete_policy(actor=SYSTEM, policy_id=policy.pk)


def a_group(_place: Place, holder: Model) -> Callable[[], None]:
    group = create_resource_group(actor=SYSTEM, name="theirs")
    grant_resource_group(actor=SYSTEM, group_id=group.pk, grantee=holder)  # type: ignore[arg-type]
    set_share_weight(actor=SYSTEM, group_id=group.pk, holder=holder, weight=Decimal(2))  # type: ignore[arg-type]
    whom = {str(holder._meta.model_name): holder}
    Reservation.objects.create(
        group=group, name="week", starts_at=clock.now(), ends_at=clock.now() + timedelta(days=7), **whom
    )
    return lambda: delete_resource_group(actor=SYSTEM, group_id=group.pk)


@pytest.mark.parametrize("thing", [a_policy, a_policy_of_a_token, a_group])
def test_nothing_of_a_purged_person_keeps_a_thing_from_being_deleted(place: Place, thing: Thing) -> None:
    delete = thing(place, place.owner)
    assert purge(place).purged_at
    delete()


def test_a_purged_person_keeps_nothing_personal(place: Place) -> None:
    User.objects.filter(pk=place.owner.pk).update(allowed_networks=["203.0.113.0/24"], language="ko")
    row = purge(place)
    assert (row.policy, row.allowed_networks, row.language) == (None, [], "")


def archive(place: Place) -> Project:
    place.end(place.run())
    return archiving.update_project(actor=SYSTEM, project_id=place.project.pk, is_active=False)


def close(place: Place) -> Domain:
    place.end(place.run())
    return archiving.update_domain(actor=SYSTEM, domain_id=place.project.domain_id, is_active=False)


@pytest.mark.parametrize(("shut", "level"), [(archive, Level.PROJECT), (close, Level.DOMAIN)])
def test_what_the_closed_still_hold_is_named_and_can_be_taken_from_them(
    place: Place, people: People, shut: Callable[[Place], Project | Domain], level: Level
) -> None:
    actor = actor_for(people.superadmin)
    holder = place.project if level is Level.PROJECT else place.project.domain
    delete_policy, delete_group = a_policy(place, holder), a_group(place, holder)
    if level is Level.PROJECT:
        budget = budgets_service.create_budget(
            actor=actor,
            level=level,
            owner_id=holder.pk,
            unit=Unit.MONEY,
            amount=Decimal(1),
            period=Period.MONTH,
        )
    closed = shut(place)

    with pytest.raises(Conflict, match=f"in use: {closed.name}"):
        delete_policy()
    limited = policies_service.access_limited(actor, level, closed.pk)
    policies_service.assign_policy(actor=actor, target=limited, policy=None)
    delete_policy()
    group = ResourceGroup.objects.get(name="theirs")
    revoke_resource_group(actor=actor, group_id=group.pk, grant_id=group.grants.get().pk)
    cancel_reservation(actor=actor, group_id=group.pk, reservation_id=current_reservations(group).get().pk)
    set_share_weight(actor=actor, group_id=group.pk, holder=closed, weight=Decimal(1))
    assert not ShareWeight.objects.exists()
    delete_group()
    if level is Level.PROJECT:
        budgets_service.delete_budget(actor=actor, budget_id=budget.pk)


def test_a_nameless_row_does_not_keep_its_domain(place: Place, people: People) -> None:
    """The person ran something in one domain, was moved to another, and left."""
    place.end(place.run())
    elsewhere = make_domain()
    User.objects.filter(pk=place.owner.pk).update(domain=elsewhere)
    case = offboarding.close_user(actor=SYSTEM, user_id=place.owner.pk)
    offboarding.continue_offboarding(case.pk)
    offboarding.purge_user(actor=SYSTEM, user_id=place.owner.pk)
    archiving.update_domain(actor=actor_for(people.superadmin), domain_id=elsewhere.pk, is_active=False)

    archiving.purge_domain(actor=SYSTEM, domain_id=elsewhere.pk)
    assert not Domain.objects.filter(pk=elsewhere.pk).exists()
    assert User.objects.get(pk=place.owner.pk).purged_at


def closed_with_nameless() -> Domain:
    """A closed domain in which the row of a purged person is all there is."""
    domain = make_domain()
    ghost = make_user(domain=domain)
    User.objects.filter(pk=ghost.pk).update(purged_at=clock.now(), is_active=False, policy=None)
    Domain.objects.filter(pk=domain.pk).update(is_active=False)
    return domain


def test_nameless_rows_go_to_an_open_domain_if_there_is_one_and_are_kept_where_there_is_no_other() -> None:
    closed, last = closed_with_nameless(), closed_with_nameless()
    archiving.purge_domain(actor=SYSTEM, domain_id=closed.pk)
    opened, closed = make_domain(), closed_with_nameless()
    archiving.purge_domain(actor=SYSTEM, domain_id=closed.pk)
    assert (last.users.count(), opened.users.count()) == (2, 1)
    opened.users.update(domain=last)
    opened.delete()
    with pytest.raises(Conflict, match="there is no other domain for them"):
        archiving.purge_domain(actor=SYSTEM, domain_id=last.pk)


def somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_the_domain_for_nameless_rows_cannot_go_while_they_move() -> None:
    """Another purge holds what they go to: this one waits for it, and asks afterwards."""
    target, closed = make_domain(), closed_with_nameless()

    def purge_closed() -> None:
        try:
            archiving.purge_domain(actor=SYSTEM, domain_id=closed.pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            Domain.objects.select_for_update().get(pk=target.pk)
            purged = pool.submit(purge_closed)
            wait_until(somebody_waits_for_a_lock)
            target.delete()
        with pytest.raises(Conflict):
            purged.result(timeout=30)


def test_what_history_needs_says_what_to_do_instead(
    place: Place, people: People, browser_of: Callable[[User], Client]
) -> None:
    registry = Registry.objects.create(name="hub", host="hub.example", url="https://hub.example")
    ContainerImage.objects.filter(pk=place.image.pk).update(registry=registry)
    for _ in range(7):
        place.end(place.run())
    make_folder(place.owner, name="data")
    policy = limit(place.owner, max_sessions=3)
    browser = browser_of(people.superadmin)
    for path, pk, sentence in (
        ("images/registry", registry.pk, "Disable it instead"),
        ("images/containerimage", place.image.pk, "Disable it instead"),
        ("vfolders/storagehost", StorageHost.objects.get().pk, "Delete them first"),
        ("accounts/resourcepolicy", policy.pk, "Give these another policy first"),
    ):
        said = browser.get(f"/admin/{path}/{pk}/delete/").content.decode()
        assert sentence in said
        browser.post(f"/admin/{path}/{pk}/delete/", {"post": "yes"})
    assert all(model.objects.exists() for model in (Registry, ContainerImage, StorageHost, ResourcePolicy))
    said = browser.get(f"/admin/images/containerimage/{place.image.pk}/delete/").content.decode()
    assert "and 2 more" in said
