"""Admission loads, decides and writes; a check gives the same answer as a submit."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.test.utils import CaptureQueriesContext

from accounts.core.roles import Role
from accounts.credentials.keypairs import create_keypair
from accounts.limits import read_scopes, scope_ids
from accounts.models import KeyPair, Membership
from agents.machines.simulation import MachineShape, add_simulated_agents
from agents.models import GroupGrant, ResourceGroup
from agents.resource_groups.service import create_resource_group
from agents.selectors import MachineTraits, has_machine_for
from common import clock
from common.actors import ANONYMOUS, SYSTEM, Actor, ActorKind
from common.errors import BerthError, NotAuthenticated, NotFound
from images.models import ContainerImage, Registry
from images.selectors import access_image
from sessions_app.admission.decide import decide
from sessions_app.admission.inputs import AdmissionInputs
from sessions_app.admission.load import load_admission_inputs
from sessions_app.admission.service import check_session, enqueue_session
from sessions_app.core.request import SessionRequest, parse_request
from sessions_app.models import ComputeSession, Kernel, SessionTransition
from tests import factories
from tests.db.scheduler.test_concurrent_ticks import held_open
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db


def request_of(place: Place, **changes: object) -> SessionRequest:
    return parse_request(place.request(**changes))


def load(actor: Actor, request: SessionRequest, *, is_locked: bool) -> AdmissionInputs:
    return load_admission_inputs(actor, [request], is_locked=is_locked)


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


def use_registry(place: Place, *, is_enabled: bool = True) -> None:
    registry = Registry.objects.create(
        name="r", host="r.example", url="https://r.example", is_enabled=is_enabled
    )
    ContainerImage.objects.update(registry=registry)


def switch_registry_off(place: Place) -> None:
    use_registry(place, is_enabled=False)


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
    grant_nothing, leave, close_project, close_domain, hide_image, use_registry, switch_registry_off, close_group,
    grant_to_project, grant_to_domain, grant_to_person,
]  # fmt: skip


def answer(actor: Actor, request: SessionRequest, *, is_locked: bool) -> list[Any]:
    """Return what it names, as rows, or the refusal."""
    try:
        with transaction.atomic():
            found = load(actor, request, is_locked=is_locked)
    except BerthError as refusal:
        return [type(refusal), refusal.message, refusal.hint, refusal.fields]
    named = (found.project, found.image, found.group)
    values = [getattr(row, field.attname) for row in named for field in row._meta.concrete_fields]
    return [*values, sorted(found.scopes, key=repr), decide(found)]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("names_group", [True, False])
def test_locked_inputs_are_those_of_the_selectors(
    place: Place, change: Callable[[Place], None], names_group: bool
) -> None:
    change(place)
    request = request_of(place, resource_group=place.group.name if names_group else "")
    domain = place.project.domain
    people = [
        place.owner,
        factories.make_user(admin_of=place.project),
        factories.make_user(domain=domain),
        factories.make_user(domain=domain, role=Role.SUPERADMIN),
        factories.make_user(role=Role.MONITOR),
        factories.make_user(member_of=factories.make_project()),
    ]
    Membership.objects.create(user=people[3], project=place.project, role="member")
    for actor in (*map(factories.actor_for, people), ANONYMOUS, SYSTEM):
        assert answer(actor, request, is_locked=True) == answer(actor, request, is_locked=False), actor


def test_an_image_is_found_by_its_number_or_without_its_tag(place: Place) -> None:
    actor, image = factories.actor_for(place.owner), place.image
    for named in (str(image.pk), image.reference, image.reference.rpartition(":")[0]):
        with transaction.atomic():
            assert load(actor, request_of(place, image=named), is_locked=True).image == image
    for named in (str(image.pk + 1), "9" * 19):  # no id has so many digits
        with pytest.raises(NotFound), transaction.atomic():
            load(actor, request_of(place, image=named), is_locked=True)


def test_limits_machines_and_budgets_are_those_of_the_project_and_the_person(place: Place) -> None:
    limit(place.owner, max_sessions=3)
    limit(place.project.domain, max_slots={"cpu": 64000})
    actor = factories.actor_for(place.owner)
    place.enqueue()
    found = load(actor, request_of(place), is_locked=True)
    expected = read_scopes(scope_ids(actor, place.project).keys())
    assert sorted(found.scopes, key=repr) == sorted(expected, key=repr)
    assert len(expected) == 2
    assert not found.budgets
    assert found.has_machine
    assert not load(actor, request_of(place, resources={"cpu": 9, "mem": "1g"}), is_locked=True).has_machine


WRONG: list[dict[str, object]] = [
    {"image": "no:such"}, {"resource_group": "none"}, {"project": "none"}, {"resources": {"cpu": 9, "mem": "1g"}},
    {"device_model": "H200", "resources": {"cpu": 1, "mem": "1g", "cuda": 1}}, {"designated_agent": "none"},
    {"mounts": [{"folder": "none"}]}, {"dependencies": ["none"]}, {"callback_url": "http://127.0.0.1/"},
    {"priority": 50}, {"name": "taken"}, {"start_at": "2001-01-01T00:00:00Z", "project": "none"},
    {"resources": {"cpu": 9, "mem": "1g"}, "mounts": [{"folder": "none"}]},
]  # fmt: skip


@pytest.mark.parametrize("changes", WRONG)
def test_a_check_and_a_submit_are_refused_alike(place: Place, changes: dict[str, object]) -> None:
    place.enqueue(name="taken")
    actor, request = factories.actor_for(place.owner), request_of(place, **changes)
    with pytest.raises(BerthError) as checked:
        check_session(actor, [request])
    with pytest.raises(BerthError) as submitted:
        enqueue_session(actor=actor, request=request)
    one, other = checked.value, submitted.value
    assert type(one) is type(other)
    assert (one.message, one.hint, one.fields, one.code) == (
        other.message,
        other.hint,
        other.fields,
        other.code,
    )
    assert ComputeSession.objects.count() == 1


def test_a_decision_names_all_refusals_and_reads_nothing(
    place: Place, django_assert_num_queries: Any
) -> None:
    wrong = {"resources": {"cpu": 9, "mem": "1g"}, "mounts": [{"folder": "none"}], "priority": 50}
    inputs = load(factories.actor_for(place.owner), request_of(place, **wrong), is_locked=False)
    with django_assert_num_queries(0):
        refusals = decide(inputs)
    assert [list(each.fields) for each in refusals] == [["mounts.0.folder"], ["resources"], ["priority"]]


@pytest.mark.parametrize("is_by_id", [False, True])
def test_a_request_is_accepted_by_thirteen_statements(place: Place, is_by_id: bool) -> None:
    image = ContainerImage.objects.get()
    actor = factories.actor_for(place.owner)
    request = request_of(place, image=str(image.pk) if is_by_id else image.reference)
    with CaptureQueriesContext(connection) as captured:
        session = enqueue_session(actor=actor, request=request)
    words = [(each["sql"] or "").split()[0] for each in captured.captured_queries]
    assert [word for word in words if word not in ("SAVEPOINT", "RELEASE")] == ["SELECT"] * 9 + ["INSERT"] * 4
    assert Kernel.objects.get(session=session).name == "main1"
    assert SessionTransition.objects.get(session=session).actor_label == actor.label


def test_closed_user_gets_no_session(place: Place) -> None:
    actor = factories.actor_for(place.owner)
    place.owner.is_active = False
    place.owner.save(update_fields=["is_active"])
    with pytest.raises(NotFound):
        enqueue_session(actor=actor, request=request_of(place))


@pytest.mark.django_db(transaction=True)
def test_whatever_the_session_will_belong_to_is_locked_as_it_is_written() -> None:
    """Its foreign keys are looked at when the transaction ends: without it, who deletes the group meanwhile would not wait."""
    place = make_place()
    actor = factories.actor_for(place.owner)
    with held_open(lambda: enqueue_session(actor=actor, request=request_of(place))):
        for row in (place.group, place.project, place.project.domain, place.owner):
            with pytest.raises(OperationalError, match="could not obtain lock"), transaction.atomic():
                type(row)._default_manager.select_for_update(nowait=True).get(pk=row.pk)


def test_machines_of_other_groups_are_not_looked_at() -> None:
    """Though PostgreSQL has them first, and expects to find one that suits among the next few."""
    far = create_resource_group(actor=SYSTEM, name="far")
    add_simulated_agents(actor=SYSTEM, group=far, count=400, shape=MachineShape())
    place = make_place()
    add_simulated_agents(actor=SYSTEM, group=place.group, count=400, shape=MachineShape())
    slots = request_of(place).slots
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE agents_agent")
        before = read_of_agents(cursor)
        for _ in range(7):  # PostgreSQL keeps a plan for all then
            assert has_machine_for(place.group, slots, MachineTraits(place.image.architecture))
        assert read_of_agents(cursor) - before < 100


def read_of_agents(cursor: CursorWrapper) -> int:
    cursor.execute(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'agents_agent'"
    )
    return int(cursor.fetchone()[0])


def test_rights_are_those_of_the_locked_account(place: Place) -> None:
    """A superadmin who was demoted after the request was authenticated is admitted as what they are now."""
    was = replace(factories.actor_for(place.owner), is_superadmin=True)
    assert load(was, request_of(place), is_locked=True).actor == factories.actor_for(place.owner)


def test_a_token_that_expires_after_the_request_was_authenticated_admits_nothing(place: Place) -> None:
    actor = factories.actor_for(place.owner)
    token = create_keypair(actor=actor, name="robot", expires_at=clock.now() + timedelta(hours=1))[0]
    by_token = replace(actor, kind=ActorKind.TOKEN, keypair_id=token.pk)
    assert load(by_token, request_of(place), is_locked=True).actor == by_token
    KeyPair.objects.update(expires_at=clock.now())
    with pytest.raises(NotAuthenticated):
        load(by_token, request_of(place), is_locked=True)


def test_an_image_that_is_disabled_while_it_is_looked_for_is_refused_by_the_given_name(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = place.image.reference.rpartition(":")[0]

    def find_and_hide(actor: Actor, reference: str) -> ContainerImage:
        image = access_image(actor, reference)
        hide_image(place)
        return image

    monkeypatch.setattr("sessions_app.admission.load.access_image", find_and_hide)
    with pytest.raises(NotFound, match=f"{repository}[^:]"):
        load(factories.actor_for(place.owner), request_of(place, image=repository), is_locked=True)
