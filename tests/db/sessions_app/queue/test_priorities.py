"""Priorities of requests: policy limits, order, and constraints of the database."""

from dataclasses import replace
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from accounts.core.roles import Role
from accounts.credentials.keypairs import create_keypair
from accounts.models import KeyPair, ResourcePolicy
from common.actors import Actor, ActorKind
from common.errors import LimitExceeded
from scheduler.tick import run_tick
from sessions_app.admission import load
from sessions_app.admission.forecast import forecast_session
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import parse_request
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession
from tests.elsewhere import elsewhere
from tests.factories import actor_for, make_user
from tests.factories_limits import limit
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db


def ask(place: Place, priority: int, *, actor: Actor | None = None) -> ComputeSession:
    request = parse_request(place.request(priority=priority))
    return enqueue_session(actor=actor or actor_for(place.owner), request=request)


def refusal(place: Place, priority: int, *, actor: Actor | None = None) -> LimitExceeded:
    with pytest.raises(LimitExceeded) as refused:
        ask(place, priority, actor=actor)
    assert set(refused.value.fields) == {"priority"}
    return refused.value


def test_lower_priorities_are_free_and_higher_ones_need_a_policy(place: Place) -> None:
    assert ask(place, -100).priority == -100
    assert refusal(place, 1).message == "Your account may give a session at most priority 0; you asked for 1."


@pytest.mark.parametrize("level", ["domain", "project", "user"])
def test_a_policy_of_the_installation_lets_up_to_its_number(place: Place, level: str) -> None:
    targets = {"domain": place.project.domain, "project": place.project, "user": place.owner}
    limit(targets[level], max_priority=20)

    assert ask(place, 20).priority == 20
    assert [state["value"] for state in refusal(place, 21).limits] == [20]


def test_the_least_of_all_levels_holds(place: Place) -> None:
    limit(place.project.domain, max_priority=50)
    limit(place.owner, max_priority=10)
    assert [(state["level"], state["value"]) for state in refusal(place, 30).limits] == [("user", 10)]


def test_a_policy_of_a_domain_narrows_and_never_lets(place: Place) -> None:
    domain = place.project.domain
    own = ResourcePolicy.objects.create(name="own", domain=domain, max_priority=30)
    place.project.policy = own
    place.project.save(update_fields=["policy"])
    assert [state["value"] for state in refusal(place, 10).limits] == [0]

    limit(domain, max_priority=50)
    assert ask(place, 30).priority == 30
    assert [state["level"] for state in refusal(place, 31).limits] == ["project"]


def test_a_token_stays_below_its_own_policy(place: Place) -> None:
    limit(place.owner, max_priority=50)
    keypair, _token = create_keypair(actor=actor_for(place.owner), name="robot")
    limit(KeyPair.objects.get(pk=keypair.pk), max_priority=5)
    program = replace(actor_for(place.owner), kind=ActorKind.TOKEN, keypair_id=keypair.pk)
    assert [state["level"] for state in refusal(place, 6, actor=program).limits] == ["keypair"]
    assert ask(place, 6).priority == 6


def test_superadmins_need_no_policy_and_keep_to_those_that_are_there(place: Place) -> None:
    chief = make_user(domain=place.project.domain, member_of=place.project, role=Role.SUPERADMIN)
    assert ask(place, 100, actor=actor_for(chief)).priority == 100
    limit(place.project, max_priority=5)
    assert [state["value"] for state in refusal(place, 6, actor=actor_for(chief)).limits] == [5]


@pytest.mark.django_db(transaction=True)
def test_a_policy_that_is_taken_away_meanwhile_counts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the policy is locked."""
    policy = limit(place.owner, max_priority=20)
    lock = load._lock_project

    def take_away(*arguments: Any) -> Any:
        elsewhere(lambda: ResourcePolicy.objects.filter(pk=policy.pk).update(max_priority=None))
        return lock(*arguments)

    monkeypatch.setattr(load, "_lock_project", take_away)
    refusal(place, 20)
    assert not ComputeSession.objects.exists()


def test_higher_priority_starts_first(place: Place) -> None:
    limit(place.owner, max_priority=20)
    nice, usual, urgent = ask(place, -1), ask(place, 0), ask(place, 20)
    place.agent.slots.filter(slot_name="cpu").update(capacity=1000)

    run_tick(place.group.pk)

    assert place.fresh(urgent).status == Status.SCHEDULED
    assert [place.fresh(each).queue_position for each in (usual, nice)] == [1, 2]
    foreseen = forecast_session(actor_for(place.owner), parse_request(place.request(name="next", priority=5)))
    assert foreseen.outlook.position == 1


def test_the_database_knows_the_range(place: Place) -> None:
    session = ask(place, 0)
    with pytest.raises(IntegrityError, match="session_priority_in_range"), transaction.atomic():
        ComputeSession.objects.filter(pk=session.pk).update(priority=101)
    with pytest.raises(IntegrityError, match="policy_priority_in_range"), transaction.atomic():
        ResourcePolicy.objects.create(name="more", max_priority=101)
