"""Changing the priority of a pending session by service, page and REST."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from accounts.core.roles import Role
from accounts.models import User
from common.actors import SYSTEM
from common.errors import BerthError, Conflict, InvalidInput, LimitExceeded, PermissionDenied
from common.models import AuditEntry
from scheduler.tick import run_tick
from sessions_app.models import ComputeSession
from sessions_app.queue.priority import change_priority
from tests.factories import actor_for, api_client, make_user
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
Browser = Callable[[User], Client]


@pytest.fixture
def place() -> Place:
    """One core, which is taken: whoever is asked for waits."""
    place = make_place(cpu_milli=1000)
    place.run()
    return place


@pytest.fixture
def governor(place: Place) -> User:
    return make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN)


def give(who: User, session: ComputeSession, priority: object) -> int:
    return change_priority(actor=actor_for(who), session_id=session.pk, priority=priority).priority


def test_the_next_tick_has_the_new_order(place: Place) -> None:
    first, second = place.enqueue(), place.enqueue()
    run_tick(place.group.pk)
    assert [place.fresh(each).queue_position for each in (first, second)] == [1, 2]

    assert give(place.owner, first, -5) == -5
    run_tick(place.group.pk)
    assert [place.fresh(each).queue_position for each in (first, second)] == [2, 1]
    entry = AuditEntry.objects.get(action="sessions.change_priority")
    assert entry.changes == {"priority": [0, -5]}


def test_owners_raise_it_as_far_as_policies_allow(place: Place) -> None:
    session = place.enqueue()
    with pytest.raises(LimitExceeded):
        give(place.owner, session, 1)
    limit(place.owner, max_priority=20)
    assert give(place.owner, session, "20") == 20
    with pytest.raises(LimitExceeded):
        give(place.owner, session, 21)


def test_what_an_administrator_set_is_the_most(place: Place, governor: User) -> None:
    limit(place.project, max_priority=20)
    session = place.enqueue()
    assert give(governor, session, 10) == 10
    assert give(governor, session, -50) == -50
    assert give(place.owner, session, -60) == -60
    assert give(place.owner, session, -50) == -50
    with pytest.raises(LimitExceeded, match=governor.email):
        give(place.owner, session, -49)
    assert give(governor, session, 0) == 0


def test_administrators_of_a_domain_stay_within_policies_and_superadmins_need_none(
    place: Place, governor: User
) -> None:
    session = place.enqueue()
    with pytest.raises(LimitExceeded):
        give(governor, session, 1)
    assert give(make_user(role=Role.SUPERADMIN), session, 100) == 100


@pytest.mark.parametrize("role", [Role.DOMAIN_MONITOR, Role.MONITOR])
def test_viewers_change_no_priority(place: Place, role: Role) -> None:
    session = place.enqueue()
    with pytest.raises(PermissionDenied):
        give(make_user(domain=place.project.domain, role=role), session, -1)


def test_project_admins_see_it_and_leave_it(place: Place) -> None:
    with pytest.raises(PermissionDenied):
        give(make_user(admin_of=place.project), place.enqueue(), -1)


@pytest.mark.parametrize(
    ("priority", "refusal"), [(101, InvalidInput), ("soon", InvalidInput), (1.5, InvalidInput)]
)
def test_what_is_no_priority_is_refused(place: Place, priority: object, refusal: type[BerthError]) -> None:
    with pytest.raises(refusal):
        give(place.owner, place.enqueue(), priority)


def test_only_what_waits_has_one_to_change(place: Place) -> None:
    running = ComputeSession.objects.get()
    with pytest.raises(Conflict, match="does not wait any more: it is running"):
        give(place.owner, running, -1)
    assert change_priority(actor=SYSTEM, session_id=place.enqueue().pk, priority=5).priority == 5


def test_the_page_says_who_changed_it(place: Place, governor: User, browser_of: Browser) -> None:
    session = place.enqueue()
    address = reverse("session-priority", args=[session.pk])
    queue = browser_of(governor).get(reverse("queue", query={"group": place.group.name})).content.decode()
    assert address in queue
    answer = browser_of(governor).post(address, {"priority": "-3", "back": place.group.name, "page": "1"})
    assert answer["Location"] == reverse("queue", query={"group": place.group.name, "page": "1"})

    page = browser_of(place.owner).get(reverse("session-detail", args=[session.pk])).content.decode()
    assert f"Changed from 0 by {governor.email}" in page
    refused = browser_of(place.owner).post(address, {"priority": "4"}, follow=True).content.decode()
    assert "at most priority 0" in refused
    assert place.fresh(session).priority == -3


def test_rest_changes_it(place: Place) -> None:
    session = place.enqueue()
    address = reverse("api-session-priority", args=[session.pk])
    program = api_client(place.owner)
    assert program.put(address, {"priority": -7}).json()["priority"] == -7
    assert program.put(address, {"priority": 7}).json()["code"] == "limit_exceeded"
    assert program.put(address, {"priority": 1000}).status_code == 400
