"""Arrays in the launcher, in the list and on pages of elements."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from common import clock
from sessions_app.models import SessionArray
from sessions_app.termination.delayed_stop import run_due_stops
from tests.factories import make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
SESSIONS, LAUNCHER = "/sessions/", "/sessions/new/"


@pytest.fixture
def browser(place: Place, browser_of: Callable[[User], Client]) -> Client:
    return browser_of(place.owner)


def form(place: Place, **changes: str) -> dict[str, str]:
    return {
        "image": place.image.reference,
        "project": place.project.name,
        "resource_group": place.group.name,
        "name": "sweep",
        "type": "batch",
        "command": "true",
        "cpu": "1",
        "mem": "1g",
        **changes,
    }


def ask(place: Place, spec: str = "1-4%2", name: str = "sweep") -> SessionArray:
    array = place.enqueue(name=name, type="batch", command="true", array=spec).array
    assert array is not None
    return array


def text_of(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def test_the_launcher_makes_an_array_and_leads_to_all_of_it(place: Place, browser: Client) -> None:
    assert 'name="array"' in text_of(browser.get(LAUNCHER))
    made = browser.post(LAUNCHER, form(place, array="1-4%2"))
    array = SessionArray.objects.get()
    assert made.status_code == 302
    assert made["Location"] == f"{SESSIONS}?array={array.pk}&project=*&sort=started"

    shown = text_of(browser.get(made["Location"]))
    assert "at most 2 at once" in shown
    assert "2 on hold (array limit)" in shown
    assert "element 3 of sweep (4)" in shown


def test_a_wrong_one_is_refused_at_its_field_and_none_is_asked_of_an_interactive_one(
    place: Place, browser: Client
) -> None:
    refused = browser.post(LAUNCHER, form(place, array="1-10000000"))
    assert refused.status_code == 422
    assert "has more than 1000 elements" in text_of(refused)
    made = browser.post(LAUNCHER, form(place, array="1-4", type="interactive", command=""))
    assert made.status_code == 302
    assert not SessionArray.objects.exists()


def test_the_list_shows_the_array_alone_and_its_choice_can_be_taken_back(
    place: Place, browser: Client
) -> None:
    array = ask(place)
    place.enqueue(name="alone")
    shown = text_of(browser.get(SESSIONS, {"array": str(array.pk)}))
    assert "alone" not in shown
    assert "sweep-2" in shown
    assert '<span class="text-secondary">Array</span> sweep' in shown
    assert "alone" in text_of(browser.get(SESSIONS))


@pytest.mark.parametrize("wrong", ["x", "", "00000000-0000-4000-8000-000000000000", "\x01"])
def test_an_address_that_names_no_array_shows_no_array(place: Place, browser: Client, wrong: str) -> None:
    ask(place)
    answer = browser.get(SESSIONS, {"array": wrong})
    assert answer.status_code == 200
    assert "Stop all" not in text_of(answer)


def test_those_of_others_are_in_no_list(place: Place, browser_of: Callable[[User], Client]) -> None:
    array = ask(place)
    other = browser_of(make_user(member_of=place.project))
    shown = text_of(other.get(SESSIONS, {"array": str(array.pk)}))
    assert "sweep" not in shown
    assert "No session matches" in shown


def test_the_page_of_an_element_leads_to_all_of_it(place: Place, browser: Client) -> None:
    array = ask(place)
    element = array.elements.get(array_index=2)
    shown = text_of(browser.get(f"{SESSIONS}{element.pk}/"))
    assert (
        f'<a href="{SESSIONS}?array={array.pk}&amp;project=*&amp;sort=started">element 2 of sweep (4)</a>'
        in shown
    )


def test_stopping_all_can_be_taken_back_and_comes_for_all_of_it_together(
    place: Place, browser: Client, django_assert_max_num_queries: Any
) -> None:
    array = ask(place, "1-40%5")
    stop, keep = f"{SESSIONS}arrays/{array.pk}/stop/", f"{SESSIONS}arrays/{array.pk}/keep/"
    assert browser.post(stop).status_code == 302
    shown = text_of(browser.get(SESSIONS, {"array": str(array.pk)}))
    assert "40 sessions are being stopped." in shown
    assert browser.post(keep).status_code == 302
    assert not array.elements.exclude(stops_at=None).exists()

    browser.post(stop)
    with clock.frozen_at(clock.now() + timedelta(seconds=11)), django_assert_max_num_queries(20):
        run_due_stops()
    assert set(array.elements.values_list("status", flat=True)) == {"CANCELLED"}
    assert "All of it is being stopped" in text_of(browser.post(stop, follow=True))


def test_a_list_of_elements_costs_what_a_list_of_others_does(
    place: Place, browser: Client, django_assert_max_num_queries: Any
) -> None:
    place.enqueue()
    browser.get(SESSIONS)
    with django_assert_max_num_queries(30) as few:
        browser.get(SESSIONS)
    count = len(few.captured_queries)
    ask(place, "1-20")
    with django_assert_max_num_queries(count):
        browser.get(SESSIONS)
