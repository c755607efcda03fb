"""What a request names is read together, as the selectors would read it, and a request costs a few statements."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.test.utils import CaptureQueriesContext

from accounts.limits import scope_ids, scopes_of
from accounts.models import Membership
from accounts.roles import Role
from accounts.selectors import usable_projects
from agents.groups import create_resource_group
from agents.models import GroupGrant, ResourceGroup
from agents.selectors import has_machine_for, meant_group, usable_resource_groups
from agents.simulation import Shape, add_simulated_agents
from common.actors import ANONYMOUS, SYSTEM, Actor
from common.errors import NotFound
from images.models import ContainerImage, Registry
from images.selectors import visible_images
from sessions_app.asked import NOTHING, read_asked
from sessions_app.models import Kernel, SessionTransition
from sessions_app.requests import SessionRequest, parse_request
from sessions_app.services import enqueue_session
from tests import factories
from tests.db.test_scheduler_concurrency import held_open
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db


@pytest.fixture
def place() -> Place:
    return make_place()


def asked_of(place: Place, **changes: object) -> SessionRequest:
    return parse_request(place.request(**changes))


def as_selectors_say(actor: Actor, request: SessionRequest) -> list[Any]:
    project = usable_projects(actor).filter(name=request.project).first()
    groups = usable_resource_groups(actor, project) if project else ResourceGroup.objects.none()
    return [
        project,
        visible_images(actor).filter(reference=request.image).first(),
        meant_group(groups, request.resource_group).first(),  # type: ignore[arg-type]
    ]


def grant_nothing(place: Place) -> None:
    pass


def leave(place: Place) -> None:
    Membership.objects.all().delete()


def close_project(place: Place) -> None:
    place.project.is_active = False
    place.project.save()


def close_domain(place: Place) -> None:
    place.project.domain.is_active = False
    place.project.domain.save()


def hide_image(place: Place) -> None:
    ContainerImage.objects.update(is_enabled=False)


def switch_registry_off(place: Place) -> None:
    registry = Registry.objects.create(name="r", host="r.example", url="https://r.example", is_enabled=False)
    ContainerImage.objects.update(registry=registry)


def close_group(place: Place) -> None:
    ResourceGroup.objects.update(is_public=False)


def grant_to_project(place: Place) -> None:
    close_group(place)
    GroupGrant.objects.create(group=place.group, project=place.project)


def grant_to_domain(place: Place) -> None:
    close_group(place)
    GroupGrant.objects.create(group=place.group, domain=place.project.domain)


def grant_to_person(place: Place) -> None:
    close_group(place)
    GroupGrant.objects.create(group=place.group, user=place.owner)


CHANGES = [
    grant_nothing, leave, close_project, close_domain, hide_image, switch_registry_off, close_group, grant_to_project,
    grant_to_domain, grant_to_person,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("names_group", [True, False])
def test_it_is_what_the_selectors_let_each_person_use(
    place: Place, change: Callable[[Place], None], names_group: bool
) -> None:
    change(place)
    request = asked_of(place, resource_group=place.group.name if names_group else "")
    domain = place.project.domain
    people = [
        place.owner,
        factories.make_user(admin_of=place.project),
        factories.make_user(domain=domain),
        factories.make_user(domain=domain, role=Role.SUPERADMIN),
        factories.make_user(role=Role.MONITOR),
        factories.make_user(member_of=factories.make_project()),
    ]
    superadmin = people[3]
    Membership.objects.create(user=superadmin, project=place.project, role="member")
    for person in people:
        actor = factories.actor_for(person)
        found = read_asked(actor, request)
        project, image, group = as_selectors_say(actor, request)
        assert [found.project, found.image] == [project, image], person
        if project is not None:  # else there is nobody to whom a group could be open
            assert found.group == group, person


def test_an_image_is_found_by_its_number_where_it_may_be_seen(place: Place) -> None:
    image, actor = ContainerImage.objects.get(), factories.actor_for(place.owner)
    assert read_asked(actor, asked_of(place, image=str(image.pk))).image == image
    assert read_asked(actor, asked_of(place, image=str(image.pk + 1))).image is None
    assert read_asked(actor, asked_of(place, image="9" * 19)).image is None  # no id has so many digits
    hide_image(place)
    assert read_asked(actor, asked_of(place, image=str(image.pk))).image is None


def test_rows_are_read_as_django_reads_them(place: Place) -> None:
    found = read_asked(factories.actor_for(place.owner), asked_of(place))
    for row in (found.project, found.image, found.group):
        assert row is not None
        again = type(row)._default_manager.get(pk=row.pk)
        for field in row._meta.concrete_fields:
            assert getattr(row, field.attname) == getattr(again, field.attname), field


def test_limits_machines_and_budgets_are_those_of_the_project_and_the_person(place: Place) -> None:
    limit(place.owner, max_sessions=3)
    limit(place.project.domain, max_slots={"cpu": 64000})
    actor = factories.actor_for(place.owner)
    place.enqueue()
    small, large = asked_of(place), asked_of(place, resources={"cpu": 9, "mem": "1g"})

    found = read_asked(actor, small)
    expected = scopes_of(scope_ids(actor, place.project).keys())
    assert sorted(found.scopes, key=repr) == sorted(expected, key=repr)
    assert len(expected) == 2
    assert not found.have_budgets
    assert found.is_whole
    assert found.has_machine
    assert has_machine_for(place.group, small.slots, architecture=place.image.architecture)
    assert not read_asked(actor, large).has_machine


def test_nobody_finds_nothing(place: Place) -> None:
    assert read_asked(ANONYMOUS, asked_of(place)) is NOTHING
    assert read_asked(SYSTEM, asked_of(place)) is NOTHING


@pytest.mark.parametrize("is_by_id", [False, True])
def test_a_request_is_accepted_by_two_statements(place: Place, is_by_id: bool) -> None:
    """Read; hold the person and all that the session will belong to, look whether others changed anything, and write."""
    image = ContainerImage.objects.get()
    actor, request = (
        factories.actor_for(place.owner),
        asked_of(place, image=str(image.pk) if is_by_id else image.reference),
    )
    with CaptureQueriesContext(connection) as captured:
        session = enqueue_session(actor=actor, request=request)
    words = [(each["sql"] or "").split()[0] for each in captured.captured_queries]
    assert [word for word in words if word not in ("SAVEPOINT", "RELEASE")] == ["WITH"] * 2
    assert Kernel.objects.get(session=session).name == "main1"
    assert SessionTransition.objects.get(session=session).actor_label == actor.label


def test_whoever_is_gone_meanwhile_gets_no_session(place: Place) -> None:
    actor = factories.actor_for(place.owner)
    place.owner.is_active = False
    place.owner.save(update_fields=["is_active"])
    with pytest.raises(NotFound):
        enqueue_session(actor=actor, request=asked_of(place))


@pytest.mark.django_db(transaction=True)
def test_whatever_the_session_will_belong_to_is_held_as_it_is_written() -> None:
    """Its foreign keys are looked at when the transaction ends: without it, who deletes the group meanwhile would not wait."""
    place = make_place()
    actor = factories.actor_for(place.owner)
    with held_open(lambda: enqueue_session(actor=actor, request=asked_of(place))):
        for row in (place.group, place.project, place.project.domain, place.owner):
            with pytest.raises(OperationalError, match="could not obtain lock"), transaction.atomic():
                type(row)._default_manager.select_for_update(nowait=True).get(pk=row.pk)


def test_machines_of_other_groups_are_not_looked_at() -> None:
    """Though PostgreSQL has them first, and expects to find one that suits among the next few."""
    far = create_resource_group(actor=SYSTEM, name="far")
    add_simulated_agents(actor=SYSTEM, group=far, count=400, shape=Shape())
    place = make_place()
    add_simulated_agents(actor=SYSTEM, group=place.group, count=400, shape=Shape())
    actor, request = factories.actor_for(place.owner), asked_of(place)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE agents_agent")
        before = read_of_agents(cursor)
        for _ in range(7):  # PostgreSQL keeps a plan for all then
            read_asked(actor, request)
        assert read_of_agents(cursor) - before < 100


def read_of_agents(cursor: CursorWrapper) -> int:
    cursor.execute(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'agents_agent'"
    )
    return int(cursor.fetchone()[0])
