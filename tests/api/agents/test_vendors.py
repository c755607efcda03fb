"""Accelerator vendors over REST: a superadmin sees all, and describes own ones by device files."""

from typing import Any

import pytest

from accounts.core.roles import Role
from tests.factories import api_client, make_user


@pytest.mark.django_db
def test_vendors_say_what_they_are_verified_by_and_own_ones_have_a_form() -> None:
    api = api_client(make_user(role=Role.SUPERADMIN))
    body: dict[str, Any] = {
        "name": "board", "title": "Boards", "model": "Board 9", "device": "/dev/board{n}", "binds": ["/opt/board"],
    }  # fmt: skip
    made = api.post("/api/v1/accelerator-vendors/", body, format="json")
    assert made.status_code == 201
    assert made.json()["form"]["binds"] == ["/opt/board"]
    address = f"/api/v1/accelerator-vendors/{made.json()['id']}/"
    wrong = api.patch(address, {"also": ["/dev/s*"], "binds": ["/etc"]}, format="json")
    assert (wrong.status_code, sorted(wrong.json()["fields"])) == (400, ["also", "binds"])
    assert api.patch(address, {"locks_memory": True}, format="json").json()["form"]["locks_memory"] is True
    listed = {
        row["name"]: row for row in api.get("/api/v1/accelerator-vendors/?page_size=100").json()["results"]
    }
    assert {"nvidia", "amd", "sapeon", "board"} <= listed.keys()
    assert (listed["nvidia"]["id"], listed["nvidia"]["verified"], listed["nvidia"]["is_measured"]) == (
        None,
        "fixture",
        True,
    )
    assert (listed["board"]["verified"], listed["board"]["is_measured"]) == ("none", False)
    assert api.delete(address).status_code == 204
