"""Resource policies: permissions to write and assign them, and the preview of a change."""

from functools import partial

import pytest
from django.db import IntegrityError, transaction

from accounts.core.limits import Level
from accounts.core.roles import Role
from accounts.credentials.keypairs import create_keypair
from accounts.limits import default_policy
from accounts.models import KeyPair, ResourcePolicy, User
from accounts.policies.selectors import policy_impact, use_counts, visible_policies
from accounts.policies.service import assign_policy, create_policy, delete_policy, make_default, update_policy
from accounts.tenancy.service import update_user
from common.actors import SYSTEM, Actor
from common.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from tests.factories import actor_for, make_domain, make_user
from tests.factories_limits import limit
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db


@pytest.fixture
def governor(place: Place) -> Actor:
    return actor_for(make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN))


def test_a_domain_admin_writes_policies_of_the_own_domain_alone(place: Place, governor: Actor) -> None:
    home, elsewhere = place.project.domain, make_domain()
    foreign = create_policy(actor=SYSTEM, name="small", domain=elsewhere)
    own = create_policy(actor=governor, name="small", domain=home, limits={"max_sessions": 2})
    hidden = create_policy(actor=SYSTEM, name="of others")

    for domain in (None, elsewhere):
        with pytest.raises(PermissionDenied):
            create_policy(actor=governor, name="more", domain=domain)
    assert set(visible_policies(governor)) == {own, default_policy()}
    for each in (foreign, hidden):
        with pytest.raises(NotFound):
            update_policy(actor=governor, policy_id=each.pk, limits={"max_sessions": 9})
    with pytest.raises(PermissionDenied):
        update_policy(actor=governor, policy_id=default_policy().pk, limits={"max_sessions": 9})
    with pytest.raises(PermissionDenied):
        make_default(actor=governor, policy_id=own.pk)
    assert not visible_policies(actor_for(place.owner)).exists()


def test_a_policy_of_a_domain_allows_no_more_than_the_domain_has(place: Place, governor: Actor) -> None:
    limit(place.project.domain, max_sessions=10, max_slots={"cpu": 8000})
    with pytest.raises(InvalidInput) as refusal:
        create_policy(
            actor=governor, name="big", domain=place.project.domain,
            limits={"max_sessions": 11, "max_slots": {"cpu": 9000, "cuda": 1000}},
        )  # fmt: skip
    sentence = f"The domain “{place.project.domain.name}” allows at most "
    assert refusal.value.fields == {
        "max_sessions": [f"{sentence}10."],
        "max_slots.cpu": [f"{sentence}8 cores."],
    }


def test_admins_cannot_raise_own_limits_or_those_set_by_superadmins(place: Place, governor: Actor) -> None:
    home, oneself = place.project.domain, User.objects.get(pk=governor.user_id)
    wide = create_policy(actor=governor, name="wide", domain=home)
    for target in (oneself, home):
        with pytest.raises(PermissionDenied):
            assign_policy(actor=governor, target=target, policy=wide)
    given = limit(place.project, max_sessions=1)
    for policy in (wide, None):
        with pytest.raises(PermissionDenied):
            assign_policy(actor=governor, target=place.project, policy=policy)
    with pytest.raises(PermissionDenied):
        assign_policy(actor=governor, target=place.owner, policy=given)

    assign_policy(actor=SYSTEM, target=oneself, policy=wide)
    with pytest.raises(PermissionDenied):
        update_policy(actor=governor, policy_id=wide.pk, limits={"max_sessions": 500})

    assign_policy(actor=governor, target=place.owner, policy=wide)
    keypair, _token = create_keypair(actor=actor_for(place.owner), name="robot")
    assign_policy(actor=governor, target=keypair, policy=wide)
    assert use_counts(governor, [wide])[wide.pk] == {
        Level.DOMAIN: 0, Level.PROJECT: 0, Level.USER: 2, Level.KEYPAIR: 1,
    }  # fmt: skip
    with pytest.raises(PermissionDenied):
        assign_policy(actor=actor_for(place.owner), target=KeyPair.objects.get(pk=keypair.pk), policy=None)


def test_a_policy_of_a_domain_holds_in_that_domain_alone(place: Place) -> None:
    own = create_policy(actor=SYSTEM, name="own", domain=place.project.domain)
    for target in (place.project.domain, make_user()):
        with pytest.raises(InvalidInput):
            assign_policy(actor=SYSTEM, target=target, policy=own)

    person = make_user(domain=place.project.domain)
    assign_policy(actor=SYSTEM, target=person, policy=own)
    moved = update_user(actor=SYSTEM, user_id=person.pk, domain=make_domain())
    assert moved.policy == default_policy()


def test_lowering_a_limit_previews_excess_and_ends_nothing(place: Place) -> None:
    policy = limit(place.owner, max_sessions=5)
    assign_policy(actor=SYSTEM, target=place.project, policy=policy)
    sessions = [place.run(), place.run()]

    impact = policy_impact(SYSTEM, policy, {"max_sessions": 1})

    assert impact.counts == {Level.DOMAIN: 0, Level.PROJECT: 1, Level.USER: 1, Level.KEYPAIR: 0}
    assert {(state.level, state.used, state.value) for state in impact.above} == {
        ("user", 2, 1),
        ("project", 2, 1),
    }
    assert impact.above_count == impact.scope_count == 2
    update_policy(actor=SYSTEM, policy_id=policy.pk, limits={"max_sessions": 1})
    for session in sessions:
        session.refresh_from_db()
        assert session.is_live
    assert not policy_impact(SYSTEM, policy, {"max_sessions": 2}).above


def test_a_policy_in_use_is_not_deleted_and_says_who_uses_it(place: Place) -> None:
    policy = limit(place.owner)
    with pytest.raises(Conflict, match=place.owner.email):
        delete_policy(actor=SYSTEM, policy_id=policy.pk)
    with pytest.raises(Conflict, match="New people get"):
        delete_policy(actor=SYSTEM, policy_id=default_policy().pk)

    make_default(actor=SYSTEM, policy_id=policy.pk)
    make_default(actor=SYSTEM, policy_id=policy.pk)
    assert make_user().policy == policy
    assign_policy(actor=SYSTEM, target=place.owner, policy=None)
    own = create_policy(actor=SYSTEM, name="own", domain=place.project.domain)
    with pytest.raises(Conflict):
        make_default(actor=SYSTEM, policy_id=own.pk)
    delete_policy(actor=SYSTEM, policy_id=own.pk)
    with pytest.raises(NotFound):
        assign_policy(actor=SYSTEM, target=place.owner, policy=own)
    assert not ResourcePolicy.objects.filter(name="own").exists()


@pytest.mark.parametrize(
    "columns",
    [
        {"min_cpu_percent": 0},
        {"min_device_mem_percent": 101},
        {"use_window_s": 599},
        {"use_window_s": 86401},
        {"use_grace_s": 599},
    ],
)
def test_what_is_out_of_bounds_is_refused_in_words_and_by_the_database(columns: dict[str, int]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        create_policy(actor=SYSTEM, name="wrong", limits=columns)
    assert list(refusal.value.fields) == list(columns)
    with pytest.raises(IntegrityError), transaction.atomic():
        ResourcePolicy.objects.create(name="wrong", **columns)


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"use_window_s": 3600, "use_grace_s": 3600}, "use_grace_s"),
        ({"use_window_s": 7200}, "use_window_s"),
        ({"use_window_s": 3600, "use_grace_s": 3599}, ""),
        ({}, ""),
    ],
)
def test_a_window_and_a_grace_fit_into_the_lifetime(columns: dict[str, int], field: str) -> None:
    limits = {"min_mem_percent": 10, "max_lifetime_s": 7200, **columns}
    if not field:
        assert create_policy(actor=SYSTEM, name="lab", limits=limits).min_mem_percent == 10
        return
    with pytest.raises(
        InvalidInput, match="After 2 h every session has ended; a window and a grace"
    ) as refusal:
        create_policy(actor=SYSTEM, name="lab", limits=limits)
    assert list(refusal.value.fields) == [field]
    assert create_policy(actor=SYSTEM, name="lab", limits={**limits, "min_mem_percent": None})


def test_a_policy_of_a_domain_wants_no_less_than_the_domain(place: Place) -> None:
    limit(place.project.domain, min_cpu_percent=30, use_window_s=3600)
    make = partial(create_policy, actor=SYSTEM, domain=place.project.domain, name="own")
    with pytest.raises(InvalidInput) as refusal:
        make(limits={"min_cpu_percent": 29, "use_window_s": 7200})
    name = place.project.domain.name
    assert refusal.value.fields == {
        "min_cpu_percent": [f"The domain “{name}” wants at least 30 %."],
        "use_window_s": [f"The domain “{name}” allows at most 1 h."],
    }
    assert make(limits={"min_cpu_percent": 31, "use_window_s": 600})


def test_a_policy_of_a_domain_may_want_less_of_what_the_domain_wants_together(place: Place) -> None:
    """It ends what the domain lets go on: of its CPU this much is used, of the memory next to nothing."""
    limit(place.project.domain, min_cpu_percent=30, min_mem_percent=5, use_rule="all")
    limits = {"min_cpu_percent": 10, "min_mem_percent": 5}
    assert create_policy(actor=SYSTEM, domain=place.project.domain, name="own", limits=limits)
