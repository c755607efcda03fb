"""The Start page: one click to a session, and links to running ones."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext

from accounts.models import User
from images.models import ContainerImage
from portal.web.views import SHOWN_SESSIONS
from scheduler.tick import run_tick
from sessions_app.models import ComputeSession
from tests.factories import actor_for, make_user
from tests.factories_folders import make_storage_host
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place
from vfolders.models import StorageHost, VFolder
from vfolders.services import create_folder

pytestmark = pytest.mark.django_db
BrowserOf = Callable[[User], Client]
QUICK_START = "/sessions/quick-start/"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    make_storage_host(tmp_path)
    return make_place()


@pytest.fixture
def browser(place: Place, browser_of: BrowserOf) -> Client:
    return browser_of(place.owner)


def test_each_image_has_a_button_that_starts_it(place: Place, browser: Client) -> None:
    page = browser.get("/").content.decode()
    answer = browser.post(QUICK_START, {"image": place.image.reference})

    session = ComputeSession.objects.get()
    assert f'name="image" value="{place.image.reference}"' in page
    assert answer["Location"] == f"/sessions/{session.pk}/"
    assert session.owner == place.owner
    assert session.type == "interactive"
    assert session.name == "test-1"


def test_a_second_click_starts_a_second_session(place: Place, browser: Client) -> None:
    for _ in range(2):
        browser.post(QUICK_START, {"image": place.image.reference})

    assert set(ComputeSession.objects.values_list("name", flat=True)) == {"test-1", "test-2"}


@pytest.mark.parametrize("limits", [{"max_sessions": 0}, {"max_slots": {"cpu": 1}}, {"allowed_images": []}])
def test_a_session_that_is_refused_leaves_no_folder(
    place: Place, browser: Client, limits: dict[str, object]
) -> None:
    limit(place.owner, **limits)
    browser.post(QUICK_START, {"image": place.image.reference})
    assert not ComputeSession.objects.exists()
    assert not VFolder.objects.exists()


def test_without_a_storage_host_for_its_folder_no_card_starts(place: Place, browser: Client) -> None:
    def objection() -> str:
        return str(browser.get("/").context["quick_starts"][0]["objection"])

    limit(place.project, allowed_storage_hosts=[])
    assert objection() == "", "the folder is the person's"
    limit(place.owner, allowed_storage_hosts=[])
    assert objection() == "Your account may create folders on no storage host."
    StorageHost.objects.update(is_active=False)
    assert objection() == "There is no storage host yet."

    StorageHost.objects.update(is_active=True)
    limit(place.owner)
    create_folder(actor=actor_for(place.owner), name="my-files")
    limit(place.owner, allowed_storage_hosts=[])
    assert objection() == ""


def test_what_runs_and_what_ended_lately_is_shown(place: Place, browser: Client) -> None:
    place.end(place.run(name="yesterday"))
    place.run(name="today")
    place.enqueue(by=make_user(member_of=place.project), name="of-another")

    page = browser.get("/").content.decode()

    assert "Running and waiting" in page
    assert ">today<" in page
    assert "yesterday" in page
    assert "of-another" not in page


def test_what_runs_is_shown_before_all_that_waits(place: Place, browser: Client) -> None:
    place.run(name="notebook")
    for number in range(SHOWN_SESSIONS):
        place.enqueue(name=f"job-{number}")

    names = re.findall(
        r'<article class="card now-card" aria-label="([^"]+)"', browser.get("/").content.decode()
    )

    assert names[0] == "notebook"
    assert len(names) == SHOWN_SESSIONS


def test_the_fragment_holds_the_sessions_alone(place: Place, browser: Client) -> None:
    place.run(name="today")

    fragment = browser.get("/", headers={"HX-Request": "true"})

    assert "today" in fragment.content.decode()
    assert "<html" not in fragment.content.decode()
    assert "HX-Request" in fragment["Vary"]


@pytest.mark.parametrize("image", ["", "absent", "x\x01", "a" * 10_000, "9" * 30])
def test_an_image_that_is_not_there_is_a_page_that_says_so(browser: Client, image: str) -> None:
    answer = browser.post(QUICK_START, {"image": image})

    assert answer.status_code == 404
    assert "There is no image" in answer.content.decode()


def test_a_disabled_image_is_neither_shown_nor_started(place: Place, browser: Client) -> None:
    ContainerImage.objects.update(is_enabled=False)

    assert "No image yet" in browser.get("/").content.decode()
    assert browser.post(QUICK_START, {"image": place.image.reference}).status_code == 404


def test_more_than_any_machine_has_is_a_page_that_says_so(place: Place, browser: Client) -> None:
    ContainerImage.objects.update(min_slots={"cpu": 99_000})

    answer = browser.post(QUICK_START, {"image": place.image.reference})

    assert answer.status_code == 422
    assert "99 cores" in answer.content.decode()


def test_without_a_project_the_page_says_whom_to_ask(place: Place, browser_of: BrowserOf) -> None:
    outsider = browser_of(make_user(domain=place.project.domain))

    assert "You are in no project yet" in outsider.get("/").content.decode()
    assert "disabled" in outsider.get("/").content.decode()
    assert outsider.post(QUICK_START, {"image": place.image.reference}).status_code == 404


def test_under_a_name_without_app_hosts_the_page_says_what_helps(browser: Client) -> None:
    here = browser.get("/", headers={"Host": "localhost:8080"}).content.decode()
    as_people = {"Host": "127.0.0.1:8080", "Sec-Fetch-Dest": "document"}
    by_number = browser.get("/sessions/?tab=live", headers=as_people)
    with override_settings(ALLOWED_HOSTS=["10.1.2.3"]):
        elsewhere = browser.get("/", headers={"Host": "10.1.2.3:8080"}).content.decode()

    assert "Apps cannot open" not in here
    assert by_number["Location"] == "http://localhost:8080/sessions/?tab=live"
    assert browser.get("/", headers={"Host": "127.0.0.1:8080"}).status_code == 200
    assert "ssh -L 8080:localhost:8080 10.1.2.3" in elsewhere


def test_what_runs_can_be_opened_from_here_and_what_waits_says_why(place: Place, browser: Client) -> None:
    session = place.run(name="today")
    place.enqueue(name="big", resources={"cpu": 8, "mem": "1g"})
    run_tick(place.group.pk)

    page = browser.get("/").content.decode()

    assert re.search(
        rf'href="[^"]*{session.host_label}[^"]*"[^>]*aria-label="Open JupyterLab of today"', page
    )
    assert "Number 1 in the queue" in page or "Waits for 8\N{NO-BREAK SPACE}cores" in page
    assert "Start your first session" not in page


def test_a_new_person_is_told_what_one_click_does(place: Place, browser: Client) -> None:
    page = browser.get("/").content.decode()

    assert "Start your first session" in page
    assert "Running and waiting" not in page


def test_a_folder_is_made_from_here(place: Place, browser: Client) -> None:
    answer = browser.post("/data/", {"name": "results", "project": "-"})

    assert answer.status_code == 302
    assert 'id="folder-name"' in browser.get("/").content.decode()


def test_the_page_takes_a_constant_number_of_queries(place: Place, browser: Client) -> None:
    counts = set()
    for expected_rows in (1, 3):
        while ComputeSession.objects.live().count() < expected_rows:
            place.end(place.run())
            place.run()
        with CaptureQueriesContext(connection) as queries:
            browser.get("/")
        counts.add(len(queries))

    # Login, user, 4 for live and 4 for ended sessions, images, projects; and what the frame shows.
    assert len(counts) == 1
    assert counts.pop() <= 18
