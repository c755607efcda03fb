"""A form that is sent twice creates one object."""

import re
from pathlib import Path

import pytest
from django.test import Client

from accounts.models import KeyPair
from common.models import KeptAnswer
from sessions_app.models import ComputeSession
from tests.factories_folders import make_storage_host
from tests.factories_sessions import Place, make_place
from vfolders.models import VFolder

pytestmark = pytest.mark.django_db


@pytest.fixture
def place(tmp_path: Path) -> Place:
    make_storage_host(tmp_path)
    return make_place()


@pytest.fixture
def browser(place: Place, browser_of) -> Client:  # type: ignore[no-untyped-def]
    return browser_of(place.owner)


def token_of(browser: Client, page: str) -> str:
    found = re.search(r'name="once" value="([0-9a-f]{32})"', browser.get(page).content.decode())
    assert found is not None
    return found[1]


def test_a_second_click_on_start_goes_to_the_session_of_the_first(place: Place, browser: Client) -> None:
    form = {"image": place.image.reference, "once": token_of(browser, "/")}
    first, second = (browser.post("/sessions/quick-start/", form) for _ in range(2))

    assert first.status_code == second.status_code == 302
    assert first["Location"] == second["Location"]
    assert ComputeSession.objects.count() == 1

    browser.post("/sessions/quick-start/", {**form, "once": token_of(browser, "/")})
    assert ComputeSession.objects.count() == 2


def test_start_again_starts_once(place: Place, browser: Client) -> None:
    page = f"/sessions/{place.end(place.run()).pk}/"
    form = {"once": token_of(browser, page)}
    first, second = (browser.post(f"{page}start-again/", form) for _ in range(2))

    assert first["Location"] == second["Location"] != page
    assert ComputeSession.objects.count() == 2


def launch_form(place: Place, browser: Client, name: str) -> dict[str, str]:
    return {
        "name": name,
        "project": place.project.name,
        "image": place.image.reference,
        "cpu": "1",
        "mem": "1g",
        "once": token_of(browser, "/sessions/new/"),
    }


def test_the_launcher_launches_once_and_again_after_a_change(place: Place, browser: Client) -> None:
    form = launch_form(place, browser, "a")
    first, second = (browser.post("/sessions/new/", form) for _ in range(2))
    changed = browser.post("/sessions/new/", {**form, "name": "b"})

    assert first["Location"] == second["Location"] != changed["Location"]
    assert sorted(ComputeSession.objects.values_list("name", flat=True)) == ["a", "b"]


def test_a_form_that_was_refused_can_be_sent_again(place: Place, browser: Client) -> None:
    form = launch_form(place, browser, "a")
    place.agent.slots.update(capacity=1)
    assert browser.post("/sessions/new/", form).status_code == 422
    assert not KeptAnswer.objects.exists()

    place.agent.slots.update(capacity=2**40)
    assert browser.post("/sessions/new/", form).status_code == 302


def test_a_folder_is_made_once(browser: Client) -> None:
    form = {"name": "data", "project": "-", "once": token_of(browser, "/data/")}
    first, second = (browser.post("/data/", form) for _ in range(2))

    assert first["Location"] == second["Location"]
    assert VFolder.objects.filter(name="data").count() == 1


def test_a_token_is_shown_once(place: Place, browser: Client) -> None:
    page = "/profile/tokens/"
    form = {"name": "laptop", "scopes": ["read"], "life": "7", "once": token_of(browser, page)}
    first, second = (browser.post(page, form) for _ in range(2))

    assert (first.status_code, second.status_code, second["Location"]) == (201, 302, page)
    assert KeyPair.objects.filter(user=place.owner).count() == 1


@pytest.mark.parametrize("token", ["", "x", "\x01" * 32, "A" * 32])
def test_a_token_of_another_shape_is_none(place: Place, browser: Client, token: str) -> None:
    for name in ("a", "b"):
        assert browser.post("/data/", {"name": name, "project": "-", "once": token}).status_code == 302
    assert not KeptAnswer.objects.exists()
