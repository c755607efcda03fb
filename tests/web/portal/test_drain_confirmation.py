"""Draining an agent first shows its running sessions."""

from collections.abc import Callable

import pytest
from django.conf import settings
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from agents.core.states import AgentState
from agents.models import Agent
from portal.web import drain_confirmation
from tests.factories import make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
BrowserOf = Callable[[User], Client]


@pytest.fixture
def superadmin(place: Place, browser_of: BrowserOf) -> Client:
    return browser_of(make_user(role=Role.SUPERADMIN))


def question(browser: Client, place: Place, **headers: str) -> str:
    return browser.get(f"/agents/{place.agent.pk}/drain/", headers=headers).content.decode()


def test_the_list_leads_to_the_question(place: Place, superadmin: Client) -> None:
    assert f'href="/agents/{place.agent.pk}/drain/"' in superadmin.get("/agents/").content.decode()


def test_it_names_what_runs_there_and_whose_it_is(place: Place, superadmin: Client) -> None:
    session = place.run(name="train")
    place.end(place.run(name="over"))
    place.enqueue(name="not-there")

    page = question(superadmin, place)

    assert "1 session runs there" in page
    assert "of 1 person" in page
    assert f'href="/sessions/{session.pk}/"' in page
    assert place.owner.email in page
    assert "over<" not in page
    assert "not-there" not in page


def test_more_than_can_be_shown_is_counted(
    place: Place, superadmin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_confirmation, "SHOWN_SESSIONS", 2)
    for _ in range(3):
        place.run()

    page = question(superadmin, place)

    assert "3 sessions run there" in page
    assert "1 more" in page


def test_yes_drains_it_and_leads_back_to_where_one_came_from(place: Place, superadmin: Client) -> None:
    place.run()

    from_list = question(superadmin, place, Referer=f"{settings.BERTH_URL}/agents/?q=machine")
    from_elsewhere = question(superadmin, place, Referer="http://elsewhere.example/agents/?q=machine")

    assert 'name="back" value="/agents/?q=machine"' in from_list
    assert 'name="back" value="/agents/"' in from_elsewhere
    answer = superadmin.post(
        f"/agents/{place.agent.pk}/state/", {"to": "draining", "back": "/agents/?q=machine"}
    )
    assert answer["Location"] == "/agents/?q=machine"
    assert Agent.objects.get(pk=place.agent.pk).state == AgentState.DRAINING


def test_one_that_takes_nothing_already_cannot_be_drained(place: Place, superadmin: Client) -> None:
    Agent.objects.update(state=AgentState.DRAINING)

    page = question(superadmin, place)

    assert "No session runs there" in page
    assert "takes no new sessions now already" in page
    assert 'type="submit">' not in page[page.index("card-footer") : page.index("</main>")]
