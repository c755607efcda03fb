"""REST of session templates."""

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from tests.db.sessions_app.session_templates.test_templates import keep
from tests.factories import api_client, make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db


def test_template_is_created_changed_started_and_deleted(
    place: Place, browser_of: Callable[[User], Client]
) -> None:
    api, address = browser_of(place.owner), "/api/v1/session-templates/"
    told = {"name": "usual", "body": place.request(environment={"KEY": "x"})}
    made = api.post(address, told, content_type="application/json").json()
    assert (made["sharing"], made["left_out"], made["project"]) == ("own", ["KEY"], None)
    own = f"{address}{made['id']}/"
    assert api.patch(own, {"name": "other"}, content_type="application/json").json()["name"] == "other"
    assert [each["name"] for each in api.get(address).json()["results"]] == ["other"]
    started = api.post(f"{own}start/", {"name": "mine"}, content_type="application/json")
    assert (started.status_code, started.json()["name"]) == (201, "mine")
    assert api.delete(own).status_code == 204


def test_changed_by_is_shown_to_users_who_may_change_the_template(place: Place) -> None:
    root = make_user(role=Role.SUPERADMIN)
    keep(place, root, "everybody")
    keep(place)
    address = "/api/v1/session-templates/"

    def changed_by(user: User) -> set[tuple[str, str]]:
        listed = api_client(user).get(address).json()["results"]
        alone = [api_client(user).get(f"{address}{each['id']}/").json() for each in listed]
        assert alone == listed
        return {(each["sharing"], each["changed_by"]) for each in listed}

    assert changed_by(place.owner) == {("everybody", ""), ("own", place.owner.email)}
    assert changed_by(root) == {("everybody", root.email)}
