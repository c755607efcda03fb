"""REST of presets."""

import pytest

from accounts.core.roles import Role
from accounts.models import User
from sessions_app.session_templates.presets import create_preset
from tests.factories import actor_for, api_client, make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
SIZE = {"cpu": 1, "mem": "1g", "shm": "256m"}


def test_preset_is_created_listed_changed_and_deleted(place: Place) -> None:
    api = api_client(make_user(admin_of=place.project))
    body = {
        "name": "half",
        "place": place.project.name,
        "resources": {"cpu": 0.5, "mem": "512m", "cuda": 0.5},
    }
    made = api.post("/api/v1/presets/", body, format="json").json()
    assert made["resources"] == {"cpu": 500, "mem": 512 * 2**20, "cuda": 500}
    assert (made["sharing"], made["project"], made["shm_bytes"]) == ("project", place.project.name, None)
    owner = api_client(place.owner)
    assert [each["name"] for each in owner.get("/api/v1/presets/").json()["results"]] == ["half"]
    address = f"/api/v1/presets/{made['id']}/"
    assert owner.patch(address, {"name": "mine"}, format="json").status_code == 403
    changed = api.patch(address, {"name": "one", "resources": SIZE}, format="json").json()
    assert (changed["name"], changed["shm_bytes"]) == ("one", 256 * 2**20)
    assert api.patch(address, {"resources": {"cpu": 1}}, format="json").status_code == 400
    assert api.delete(address).status_code == 204
    assert owner.get(address).status_code == 404


def test_changed_by_is_shown_to_users_who_may_change_the_preset(place: Place) -> None:
    root = make_user(role=Role.SUPERADMIN)
    admin = make_user(admin_of=place.project)
    create_preset(actor=actor_for(root), name="all", sharing="everybody", resources=SIZE)
    create_preset(
        actor=actor_for(admin), name="here", sharing="project", place=place.project.name, resources=SIZE
    )
    address = "/api/v1/presets/"

    def changed_by(user: User) -> dict[str, str]:
        listed = api_client(user).get(address).json()["results"]
        assert [api_client(user).get(f"{address}{each['id']}/").json() for each in listed] == listed
        return {each["name"]: each["changed_by"] for each in listed}

    assert changed_by(place.owner) == {"all": "", "here": ""}
    assert changed_by(admin) == {"all": "", "here": admin.email}
    assert changed_by(root) == {"all": root.email, "here": admin.email}
