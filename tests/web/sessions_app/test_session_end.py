"""The expected end of a session on its page and in REST, and its extension."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from rest_framework.test import APIClient

from agents.models import ResourceGroup
from common import clock
from sessions_app.models import ComputeSession, Interaction, Preemption, SessionIdle
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db(transaction=True)


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
    for words in ("an open page alone is no activity", "Extend by 1 h", "3 more times", "Terminal"):
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


def test_page_and_rest_say_which_use_is_low_and_how_low(place: Place) -> None:
    ResourceGroup.objects.update(min_device_percent=10, min_cpu_percent=5, use_rule="any", use_grace_s=3600)
    session = place.run()
    low_since = clock.now() - timedelta(minutes=40)
    SessionIdle.objects.create(session=session, low_since=low_since, use={"cpu": 50, "mem": 1, "device": 3})
    page = page_of(place, session)
    assert "Its accelerator utilization is 3 %; the minimum is 10 %." in page
    assert "of its CPU" not in page

    client = APIClient()
    client.force_authenticate(place.owner)
    told = client.get(f"/api/v1/sessions/{session.pk}/").json()["ending"]
    assert told["why"].startswith("Its accelerator utilization is 3 %; the minimum is 10 %. Once")
    assert told["use"] == [
        {"name": "cpu", "percent": 50, "least": 5},
        {"name": "device", "percent": 3, "least": 10},
    ]


def test_page_and_rest_say_which_use_is_not_measured(place: Place) -> None:
    ResourceGroup.objects.update(min_device_percent=10)
    session = place.run()
    SessionIdle.objects.create(session=session, use={"cpu": 50, "mem": 1, "device": None})
    assert "Its accelerator utilization is not measured" in page_of(place, session)
    client = APIClient()
    client.force_authenticate(place.owner)
    told = client.get(f"/api/v1/sessions/{session.pk}/").json()["ending"]
    assert (told["ends_at"], told["use"]) == (None, [{"name": "device", "percent": None, "least": 10}])


def test_what_is_not_measured_is_said(place: Place, idle_session: ComputeSession) -> None:
    SessionIdle.objects.update(gap="gateway", measured_from=None)
    assert "is not measured now: no gateway reports" in page_of(place, idle_session)


def test_rest_tells_of_the_end_and_extends_it(place: Place, idle_session: ComputeSession) -> None:
    program = APIClient()
    program.force_authenticate(place.owner)
    address = f"/api/v1/sessions/{idle_session.pk}/"
    ending = program.get(address).json()["ending"]
    assert (ending["cause"], ending["is_near"], ending["max_idle_s"]) == ("interaction", True, 3600)
    assert (ending["is_soon"], "Activity in it restarts the idle timeout" in ending["why"]) == (True, True)
    assert program.get("/api/v1/sessions/").json()["results"][0]["ending"] == ending

    key = {"HTTP_IDEMPOTENCY_KEY": "again"}
    for _try in range(2):
        answer = program.post(f"{address}extend/", **key)  # type: ignore[arg-type]
        assert answer.status_code == 201
    after = answer.json()["ending"]
    assert (after["ends_at"] > ending["ends_at"], after["is_near"]) == (True, False)
    assert SessionIdle.objects.get(session=idle_session).extensions == 1


def list_of(place: Place) -> str:
    browser = Client()
    browser.force_login(place.owner)
    return browser.get("/sessions/").content.decode()


def test_the_list_says_what_ends_soon_and_why(place: Place, idle_session: ComputeSession) -> None:
    place.run()
    found = list_of(place)
    assert found.count("Ends in <time") == 1
    assert "idle timeout" in found
    SessionIdle.objects.update(interacted_at=clock.now(), warned_of=None)
    assert "Ends in" not in list_of(place)


@pytest.mark.parametrize(
    ("idle", "columns", "words"),
    [
        ({"low_since": -3000}, {}, "low utilization"),
        ({}, {"lifetime_s": 7200, "deadline_at": 600}, "maximum lifetime"),
        ({}, {"timeout_s": 3600, "deadline_at": 600}, "time limit"),
    ],
)
def test_each_limit_has_its_words_in_the_list(
    place: Place, idle: dict[str, int], columns: dict[str, int], words: str
) -> None:
    session, now = place.run(), clock.now()
    at = {name: now + timedelta(seconds=value) for name, value in idle.items()}
    SessionIdle.objects.create(session=session, **at)
    changes = {
        name: now + timedelta(seconds=value) if name.endswith("_at") else value
        for name, value in columns.items()
    }
    ComputeSession.objects.filter(pk=session.pk).update(started_at=now - timedelta(hours=2), **changes)
    assert f">{words}</div>" in list_of(place)


def test_the_list_and_rest_say_what_leaves_for_others(place: Place) -> None:
    session, by = place.run(), place.enqueue(name="urgent")
    notice = {"agent": place.agent, "decided_at": clock.now(), "ends_at": clock.now() + timedelta(minutes=1)}
    Preemption.objects.create(session=session, by=by, **notice)
    assert ">preemption</div>" in list_of(place)
    assert "preempted by a session with a higher priority" in page_of(place, session)
    program = APIClient()
    program.force_authenticate(place.owner)
    assert program.get(f"/api/v1/sessions/{session.pk}/").json()["ending"]["cause"] == "preemption"


def test_ends_cost_no_query_more_for_each_session(place: Place, idle_session: ComputeSession) -> None:
    def counted() -> int:
        with CaptureQueriesContext(connection) as queries:
            list_of(place)
        return len(queries)

    list_of(place)
    one = counted()
    for _number in range(3):
        SessionIdle.objects.create(session=place.run(), low_since=clock.now() - timedelta(minutes=50))
    assert counted() == one
    assert list_of(place).count("Ends in") == 4
