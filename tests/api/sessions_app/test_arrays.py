"""REST of arrays: create, read, stop."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from sessions_app.models import SessionArray
from tests.factories import api_client, make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
SESSIONS, ARRAYS = "/api/v1/sessions/", "/api/v1/arrays/"


@pytest.fixture
def api(place: Place) -> APIClient:
    return api_client(place.owner)


def body(place: Place, spec: str, name: str = "sweep") -> dict[str, Any]:
    return place.request(name=name, type="batch", command="true", array=spec)


def test_one_request_makes_them_all(place: Place, api: APIClient) -> None:
    first = api.post(SESSIONS, body(place, "3-5%2"))

    assert first.status_code == 201
    assert (first.json()["name"], first.json()["array_index"]) == ("sweep-3", 3)
    array_id = first.json()["array"]
    place.enqueue(name="alone")
    listed = api.get(SESSIONS, {"array": array_id}).json()["results"]
    assert [each["name"] for each in listed] == ["sweep-5", "sweep-4", "sweep-3"]
    assert {each["array"] for each in listed} == {array_id}

    shown = api.get(f"{ARRAYS}{array_id}/").json()
    assert shown.pop("created_at")
    assert shown == {
        "id": array_id,
        "name": "sweep",
        "owner": place.owner.email,
        "project": place.project.name,
        "domain": place.project.domain.name,
        "spec": "3-5%2",
        "count": 3,
        "most_at_once": 2,
        "statuses": {"PENDING": 3},
        "held": 1,
        "succeeded": 0,
    }


def test_a_session_alone_says_so(place: Place, api: APIClient) -> None:
    alone = api.post(SESSIONS, place.request()).json()
    assert (alone["array"], alone["array_index"]) == (None, None)


def test_the_same_request_twice_makes_one_array(place: Place, api: APIClient) -> None:
    asked = body(place, "1-3")
    answers = [api.post(SESSIONS, asked, headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert answers[0].json()["array"] == answers[1].json()["array"]
    assert SessionArray.objects.count() == 1


def test_a_list_costs_the_same_for_any_number(
    place: Place, api: APIClient, django_assert_max_num_queries: Any
) -> None:
    api.post(SESSIONS, body(place, "1-2", "a"))
    with django_assert_max_num_queries(12) as few:
        api.get(ARRAYS)
    count = len(few.captured_queries)
    for name in "bcdef":
        api.post(SESSIONS, body(place, "1-20", name))
    with django_assert_max_num_queries(count):
        listed = api.get(ARRAYS).json()
    assert [each["name"] for each in listed["results"]] == list("fedcba")


def test_stopping_ends_all_of_it(place: Place, api: APIClient) -> None:
    array_id = api.post(SESSIONS, body(place, "1-4%2")).json()["array"]
    for _ in range(2):
        stopped = api.delete(f"{ARRAYS}{array_id}/")
        assert (stopped.status_code, stopped.json()["statuses"]) == (202, {"CANCELLED": 4})


def test_those_of_others_are_in_no_list(place: Place, api: APIClient) -> None:
    array_id = api.post(SESSIONS, body(place, "1-2")).json()["array"]
    member = api_client(make_user(member_of=place.project))
    assert member.get(ARRAYS).json()["results"] == []
    assert member.get(SESSIONS, {"array": array_id}).json()["results"] == []


def test_what_is_no_array_is_refused_at_its_field(place: Place, api: APIClient) -> None:
    for spec in ("1-10000000", "0", "5-1"):
        answer = api.post(SESSIONS, body(place, spec) if spec != "0" else body(place, "1-2%0"))
        assert answer.status_code == 400
        assert set(answer.json()["fields"]) == {"array"}
    assert api.get(SESSIONS, {"array": "x"}).status_code == 400
