"""Shared presets and templates are written only by tokens with the scope `admin`."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from accounts.core.roles import Role
from tests.factories import make_token, make_user
from tests.factories_sessions import Place

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]

PATHS = ["/api/v1/session-templates/", "/api/v1/presets/"]


@pytest.fixture
def clients(place: Place) -> dict[str, APIClient]:
    """By the scope that its token has beside `sessions`, for one administrator; "" for none."""
    admin = make_user(role=Role.SUPERADMIN, member_of=place.project)
    scopes = {"": ["sessions"], "admin": ["sessions", "admin"]}
    tokens = {name: make_token(admin, name or "ci", scopes=each) for name, each in scopes.items()}
    return {name: APIClient(HTTP_AUTHORIZATION=f"Bearer {token}") for name, token in tokens.items()}


def asked_at(path: str, place: Place, sharing: str) -> dict[str, Any]:
    places = {"project": place.project.name, "domain": place.project.domain.name}
    asked = {"name": sharing, "sharing": sharing, "place": places.get(sharing, "")}
    if "presets" in path:
        return {**asked, "resources": {"cpu": 1, "mem": "1g"}}
    return {**asked, "body": place.request()}


@pytest.mark.parametrize("path", PATHS)
def test_a_token_that_starts_sessions_writes_its_persons_own(
    path: str, place: Place, clients: dict[str, APIClient]
) -> None:
    made = clients[""].post(path, asked_at(path, place, "own"), format="json")
    assert made.status_code == 201, made.json()
    one = f"{path}{made.json()['id']}/"
    assert clients[""].patch(one, {"name": "other"}, format="json").status_code == 200
    assert clients[""].delete(one).status_code == 204


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("sharing", ["project", "domain", "everybody"])
def test_it_writes_nothing_that_others_start_from(
    path: str, sharing: str, place: Place, clients: dict[str, APIClient]
) -> None:
    asked = asked_at(path, place, sharing)
    refused = clients[""].post(path, asked, format="json")
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
    one = f"{path}{clients['admin'].post(path, asked, format='json').json()['id']}/"
    assert clients[""].get(one).status_code == 200
    assert clients[""].patch(one, {"name": "other"}, format="json").status_code == 403
    assert clients[""].delete(one).status_code == 403
    assert clients["admin"].patch(one, {"name": "other"}, format="json").status_code == 200
    assert clients["admin"].delete(one).status_code == 204
