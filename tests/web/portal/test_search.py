"""Search and commands: permitted results, in a fixed number of queries; menus, keys and the project."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import translation

from accounts.models import User
from accounts.tenancy import service
from common.actors import SYSTEM
from portal.web.search import split
from tests import factories
from tests.conftest import People
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
BrowserOf = Callable[[User], Client]


@pytest.fixture
def place(empty_redis: None, tmp_path: Any) -> Place:
    make_storage_host(tmp_path)
    return make_place()


@pytest.fixture
def browser(place: Place, browser_of: BrowserOf) -> Client:
    return browser_of(place.owner)


def asked(browser: Client, question: str, **headers: str) -> str:
    return browser.get("/search/", {"q": question}, headers=headers).content.decode()


def test_it_finds_pages_sessions_folders_and_images(place: Place, browser: Client) -> None:
    session = place.run(name="train-resnet")
    folder = make_folder(place.owner, name="train-data")

    page = asked(browser, "train")

    assert f'href="/sessions/{session.pk}/"' in page
    assert f'href="/data/{folder.pk}/"' in page
    assert "Stop “train-resnet”" in page
    assert f"New session with {place.image.reference}" in asked(browser, place.image.reference[:6])
    assert 'href="/data/"' in asked(browser, "data")


def test_it_finds_nothing_of_others(place: Place, browser_of: BrowserOf) -> None:
    place.run(name="train-resnet")
    make_folder(place.owner, name="train-data")
    stranger = factories.make_user(member_of=factories.make_project(factories.make_domain()))

    assert "No results" in asked(browser_of(stranger), "train")


def test_it_finds_people_and_projects_for_those_who_look_after_them(
    people: People, browser_of: BrowserOf
) -> None:
    person = f'href="/people/{people.member.pk}/"'
    project = f'href="/projects/{people.project.pk}/"'

    for reader in (people.domain_admin, people.superadmin):
        assert person in asked(browser_of(reader), people.member.email)
        assert project in asked(browser_of(reader), people.project.name)
    for reader in (people.member, people.stranger):
        assert person not in asked(browser_of(reader), people.member.email)
        assert project not in asked(browser_of(reader), people.project.name)


def test_an_administrator_may_look_but_is_not_offered_to_stop(place: Place, browser_of: BrowserOf) -> None:
    place.run(name="train-resnet")
    admin = factories.make_user(admin_of=place.project)

    page = asked(browser_of(admin), "train")

    assert "train-resnet" in page
    assert "Stop “" not in page


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("stop train", ("stop", "train")),
        ("New", ("new", "")),
        ("start python 3", ("new", "python 3")),
        ("switch  demo", ("switch", "demo")),
        ("stopwatch", ("", "stopwatch")),
        ("", ("", "")),
    ],
)
def test_the_first_word_may_be_a_verb(question: str, parts: tuple[str, str]) -> None:
    assert split(question) == parts


def test_a_verb_may_be_of_the_readers_language() -> None:
    with translation.override("ko"):
        assert split("중지 train") == ("stop", "train")
        assert split("stop train") == ("stop", "train")


def test_a_verb_asks_for_its_own_alone(place: Place, browser: Client) -> None:
    session = place.run(name="train-resnet")

    stop, new, switch = (asked(browser, f"{verb} ", HX_Request="true") for verb in ("stop", "new", "switch"))

    assert f'data-url="/sessions/{session.pk}/stop/"' in stop
    assert "New session with" in new
    assert f'data-post="project={place.project.name}&amp;"' in switch
    assert "Switch" not in stop + new


def test_without_a_question_it_offers_what_runs(place: Place, browser: Client) -> None:
    place.run(name="train-resnet")

    options = asked(browser, "", HX_Request="true")

    assert options.index("train-resnet") < options.index("New session")
    assert options.count('role="option"') == len(set(re.findall(r'id="palette-\d+"', options)))
    assert "<html" not in options


def test_it_costs_the_same_however_much_there_is(place: Place, browser: Client) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            asked(browser, "a", HX_Request="true")
        return len(queries)

    place.run(name="a1")
    before = cost()
    for number in range(2, 5):
        place.run(name=f"a{number}", resources={"cpu": 0.1, "mem": "64m"})
        make_folder(place.owner, name=f"a{number}")

    assert cost() == before


def test_one_works_in_a_project_and_in_all_again(place: Place, browser: Client) -> None:
    answer = browser.post("/project/", {"project": place.project.name, "back": "/data/?q=1"})
    assert answer["Location"] == "/data/?q=1"
    assert browser.session["chosen_project"] == place.project.name
    assert browser.post("/project/", {"project": "none-of-mine"}).status_code == 404
    assert browser.post("/project/", {"project": "", "back": "https://elsewhere.example/"})["Location"] == "/"
    assert browser.session["chosen_project"] == ""


def test_the_launcher_begins_with_the_chosen_project(place: Place, browser: Client) -> None:
    place.project.name = "aaa"
    place.project.save()
    other = factories.make_project(place.project.domain, name="zzz")
    service.add_member(actor=SYSTEM, project=other, user=place.owner)
    browser.post("/project/", {"project": "zzz"})

    page = browser.get("/sessions/new/").content.decode()

    assert re.search(r'value="zzz"[^>]*(selected|checked)', page)
    assert re.search(r'name="project" value="zzz"[^>]*aria-current="true"', page)
    assert not re.search(r'value="aaa"[^>]*(selected|checked)', page)


def test_user_of_both_menus_can_switch(people: People, browser_of: BrowserOf) -> None:
    superadmin, member = browser_of(people.superadmin), browser_of(people.member)

    work = superadmin.get("/data/").content.decode()
    administration = superadmin.get("/administration/").content.decode()

    assert 'data-menu-kind="work"' in work
    assert 'href="/administration/"' in work
    assert 'href="/admin/"' not in work
    assert 'data-menu-kind="administration"' in administration
    assert 'href="/admin/"' in administration
    assert "Back to work" in administration
    assert 'href="/administration/"' not in member.get("/data/").content.decode()
    assert member.get("/administration/").status_code == 404


def test_the_page_tells_its_keys(people: People, browser_of: BrowserOf) -> None:
    page = browser_of(people.member).get("/data/").content.decode()

    assert 'data-keys="g s" data-keys-url="/sessions/"' in page
    assert 'data-keys="n" data-keys-url="/sessions/new/"' in page
    assert 'data-keys="g m"' not in page
