"""When a session ends, as its page and REST say it, and putting that off."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from agents.models import ResourceGroup
from common import clock
from sessions_app.idle_models import Interaction, SessionIdle
from sessions_app.models import ComputeSession
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def place() -> Place:
    return make_place()


@pytest.fixture
def idle_session(place: Place) -> ComputeSession:
    """One that ends in 20 minutes, of which its owner was told."""
    session, now = place.run(), clock.now()
    ends_at = now + timedelta(minutes=20)
    SessionIdle.objects.create(
        session=session,
        max_idle_s=3600,
        interacted_at=ends_at - timedelta(hours=1),
        interaction=Interaction.TERMINAL,
        measured_from=now - timedelta(hours=3),
        warned_of=ends_at,
    )
    ComputeSession.objects.filter(pk=session.pk).update(started_at=now - timedelta(hours=3))
    return place.fresh(session)


def page_of(place: Place, session: ComputeSession) -> str:
    browser = Client()
    browser.force_login(place.owner)
    return browser.get(reverse("session-detail", args=[session.pk])).content.decode()


def test_the_page_counts_down_and_offers_to_extend(place: Place, idle_session: ComputeSession) -> None:
    page = page_of(place, idle_session)
    for words in ("a page that is only open does not count", "Extend by 1 h", "3 more times", "Terminal"):
        assert words in page


def test_the_page_extends_once_for_one_form(place: Place, idle_session: ComputeSession) -> None:
    browser = Client()
    browser.force_login(place.owner)
    form = {"once": "0" * 32}
    for _click in range(2):
        answer = browser.post(reverse("session-extend", args=[idle_session.pk]), form)
        assert answer.url == reverse("session-detail", args=[idle_session.pk])  # type: ignore[attr-defined]
    assert SessionIdle.objects.get(session=idle_session).extensions == 1


def test_the_page_says_why_it_cannot_be_extended(place: Place, idle_session: ComputeSession) -> None:
    ResourceGroup.objects.update(max_extensions=0)
    assert "session-extend" not in page_of(place, idle_session)
    browser = Client()
    browser.force_login(place.owner)
    answer = browser.post(reverse("session-extend", args=[idle_session.pk]), follow=True)
    assert "cannot be extended" in answer.content.decode()


def test_what_is_not_measured_is_said(place: Place, idle_session: ComputeSession) -> None:
    SessionIdle.objects.update(gap="gateway", measured_from=None)
    assert "is not measured now: no gateway reports" in page_of(place, idle_session)


def test_rest_tells_of_the_end_and_extends_it(place: Place, idle_session: ComputeSession) -> None:
    program = APIClient()
    program.force_authenticate(place.owner)
    address = f"/api/v1/sessions/{idle_session.pk}/"
    ending = program.get(address).json()["ending"]
    assert (ending["cause"], ending["is_near"], ending["max_idle_s"]) == ("interaction", True, 3600)

    key = {"HTTP_IDEMPOTENCY_KEY": "again"}
    for _try in range(2):
        answer = program.post(f"{address}extend/", **key)  # type: ignore[arg-type]
        assert answer.status_code == 201
    after = answer.json()["ending"]
    assert (after["ends_at"] > ending["ends_at"], after["is_near"]) == (True, False)
    assert SessionIdle.objects.get(session=idle_session).extensions == 1
