"""The page that explains the limits of a user."""

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from accounts.tenancy.service import add_member
from common.actors import SYSTEM
from tests.factories import api_client, make_project, make_user
from tests.factories_limits import limit
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
Browser = Callable[[User], Client]
LIMITS = "/api/v1/limits/"


def page_of(place: Place) -> str:
    return f"/sessions/people/{place.owner.pk}/limits/"


def asked(place: Place, **changes: str) -> dict[str, str]:
    return {"project": place.project.name, "image": place.image.reference, "cpu": "1", "mem": "1g", **changes}


def test_every_limit_of_every_level_is_shown_with_who_sets_it(place: Place, browser_of: Browser) -> None:
    limit(place.project, max_sessions=4, max_slots={"cpu": 4000})
    limit(place.owner, max_sessions=9)
    place.run()
    admin = browser_of(make_user(admin_of=place.project))
    page = admin.get(page_of(place), {"project": place.project.name})
    rows = [
        (row["title"], row["who"], row["value"], row["used"], row["counts"]) for row in page.context["rows"]
    ]
    project = f"The project “{place.project.name}”"
    assert rows == [
        ("CPU in sessions", project, "4 cores", "1 core", True),
        ("Live sessions", project, "4", "1", True),
        ("Live sessions", place.owner.email, "9", "1", False),
    ]
    assert "Nothing is started." in page.content.decode()


def test_what_they_would_be_told_names_every_limit(place: Place, browser_of: Browser) -> None:
    admin = browser_of(make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN))
    assert admin.get(page_of(place), asked(place)).context["verdict"]["word"] == "now"
    limit(place.project, max_sessions=0)
    limit(place.owner, max_sessions=0, max_slots={"cuda": 0})
    verdict = admin.get(page_of(place), asked(place, devices="cuda=1")).context["verdict"]
    assert verdict["word"] == "no"
    verdict = admin.get(page_of(place), asked(place)).context["verdict"]
    assert verdict["sentences"] == [
        f"The project “{place.project.name}” has reached its limit of live sessions (0 of 0).",
        "Your account has reached its limit of live sessions (0 of 0).",
    ]
    for wrong in ({"cpu": "many"}, {"image": "absent"}, {"devices": "=,"}, {"mem": ""}):
        page = admin.get(page_of(place), asked(place, **wrong))
        assert page.status_code == 200
        assert (page.context["verdict"] or {"word": "no"})["word"] == "no"


def test_what_waits_says_for_what(place: Place, browser_of: Browser) -> None:
    limit(place.project, max_slots={"cpu": 1000})
    place.run()
    verdict = browser_of(place.owner).get(page_of(place), asked(place)).context["verdict"]
    assert verdict["word"] == "wait"
    assert "have 1 core" in verdict["sentences"][0]


def test_projects_that_one_does_not_know_are_not_shown(place: Place, browser_of: Browser) -> None:
    other = make_project(place.project.domain)
    add_member(actor=SYSTEM, project=other, user=place.owner)
    admin = make_user(admin_of=place.project)
    assert [str(each) for each in browser_of(admin).get(page_of(place)).context["projects"]] == [
        str(place.project)
    ]
    api, asked_of = api_client(admin), {"user": place.owner.email}
    assert api.get(LIMITS, {**asked_of, "project": other.name}).status_code == 404
    assert api.get(LIMITS, {"user": make_user().email}).status_code == 404
    limit(place.project, max_sessions=3)
    body = api.get(LIMITS, {**asked_of, "project": place.project.name}).json()
    assert [(each["limit"], each["level"]) for each in body["limits"]] == [
        ("sessions", "project"),
        ("keypairs", "user"),
    ]
    assert [(each["limit"], each["level"], each["value"]) for each in body["levels"]] == [
        ("sessions", "project", 3),
        ("sessions", "user", 200),
        ("keypairs", "user", 50),
    ]
