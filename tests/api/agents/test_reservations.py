"""Reservations over REST."""

from datetime import timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from accounts.core.roles import Role
from common import clock
from tests.factories import api_client, make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db


@pytest.fixture
def superadmin(place: Place) -> APIClient:
    return api_client(make_user(domain=place.project.domain, role=Role.SUPERADMIN))


def address(place: Place) -> str:
    return f"/api/v1/resource-groups/{place.group.pk}/reservations/"


def body(place: Place, **changes: Any) -> dict[str, Any]:
    ends_at = clock.now() + timedelta(hours=1)
    return {"name": "Course", "agents": [place.agent.name], "ends_at": ends_at.isoformat(), **changes}


def test_machines_are_reserved_listed_and_given_back(place: Place, superadmin: APIClient) -> None:
    asked = body(place, level="project", id=place.project.pk, reason="Exam")
    made = superadmin.post(address(place), asked, format="json").json()
    assert (made["level"], made["grantee"], made["is_open"]) == ("project", place.project.name, True)
    assert made["agents"] == [place.agent.name]
    assert superadmin.get(address(place)).json()["results"] == [made]
    assert api_client(place.owner).get(address(place)).json()["results"] == [made]
    (hidden,) = api_client(make_user()).get(address(place)).json()["results"]
    assert hidden == {**made, "name": "", "reason": "", "level": "", "grantee": ""}
    again = superadmin.post(address(place), body(place), format="json")
    assert (again.status_code, "Course" in again.json()["message"]) == (409, True)
    one = f"{address(place)}{made['id']}/"
    changed = superadmin.patch(one, {"name": "Exam", "reason": ""}, format="json").json()
    assert changed == {**made, "name": "Exam", "reason": ""}
    assert superadmin.patch(one, {"ends_at": "2001-01-01T00:00:00Z"}, format="json").status_code == 400
    assert superadmin.delete(one).status_code == 204
    assert superadmin.get(address(place)).json()["count"] == 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"agents": []}, "agents"),
        ({"ends_at": "soon"}, "ends_at"),
        ({"starts_at": "2001-01-01T00:00:00Z"}, "starts_at"),
        ({"level": "user"}, "id"),
        ({"id": 1}, "level"),
        ({"level": "token", "id": 1}, "level"),
        ({"weight": 1}, "weight"),
    ],
)
def test_wrong_values_are_refused_at_their_field(
    place: Place, superadmin: APIClient, changes: dict[str, Any], field: str
) -> None:
    answer = superadmin.post(address(place), body(place, **changes), format="json")
    assert (answer.status_code, set(answer.json()["fields"])) == (400, {field})
