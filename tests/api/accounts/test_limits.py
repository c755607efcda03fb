"""One's own limits over REST."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import KeyPair
from tests.conftest import People
from tests.factories import api_client, make_project
from tests.factories_limits import limit
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
LIMITS = "/api/v1/limits/"


def test_the_tightest_limit_of_all_levels_is_told_with_what_is_left(place: Place) -> None:
    limit(place.owner, max_sessions=9, max_slots={"cpu": 64000})
    small = limit(place.project, max_sessions=3, max_lifetime_s=3600)
    api = api_client(place.owner)
    limit(KeyPair.objects.get(user=place.owner), max_slots={"cuda": 0})
    place.run(resources={"cpu": 2, "mem": "1g"})

    body = api.get(LIMITS, {"project": place.project.name}).json()

    assert body["project"] == place.project.name
    assert [
        (each["limit"], each["level"], each["value"], each["used"], each["left"]) for each in body["limits"]
    ] == [
        ("slots.cpu", "user", 64000, 2000, 62000),
        ("slots.cuda", "keypair", 0, 0, 0),
        ("sessions", "project", 3, 1, 2),
        ("lifetime_s", "project", 3600, 0, 3600),
    ]
    assert body["limits"][2]["policy"] == small.name
    assert body["limits"][2]["scope"] == place.project.name


def test_without_a_project_the_limits_are_those_that_hold_in_all(place: Place) -> None:
    limit(place.project, max_sessions=1)
    body = api_client(place.owner).get(LIMITS).json()
    assert [(each["limit"], each["level"], each["value"]) for each in body["limits"]] == [
        ("sessions", "user", 200),
        ("keypairs", "user", 50),
    ]


def test_limits_of_projects_of_others_are_hidden(place: Place) -> None:
    other = make_project(place.project.domain)
    for name in (other.name, "absent"):
        assert api_client(place.owner).get(LIMITS, {"project": name}).status_code == 404


def test_it_takes_three_queries_however_many_limits(place: Place) -> None:
    limit(place.project, max_sessions=1, max_slots={"cpu": 1, "mem": 1, "cuda": 1})
    api = api_client(place.owner)
    api.get(LIMITS)  # notes that the token was used
    with CaptureQueriesContext(connection) as queries:
        assert api.get(LIMITS, {"project": place.project.name}).status_code == 200
    assert len(queries) == 3


@pytest.mark.parametrize("asked", ["user", "project"])
def test_nobody_and_no_project_is_called_by_a_nul(people: People, asked: str) -> None:
    assert api_client(people.superadmin).get(LIMITS, {asked: "\x01"}).status_code == 404
