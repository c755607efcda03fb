"""Sharing rules over REST."""

import pytest

from accounts.core.roles import Role
from tests.factories import api_client, make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db


def test_rule_is_made_listed_changed_and_deleted(place: Place) -> None:
    superadmin = api_client(make_user(domain=place.project.domain, role=Role.SUPERADMIN))
    address = f"/api/v1/resource-groups/{place.group.pk}/sharing-rules/"
    made = superadmin.post(address, {"mode": "hook", "hook_image": "registry/hook:1"}, format="json").json()
    assert (made["isolation"], made["smallest_share"], made["mig_on_demand"]) == ("cooperative", 1, False)
    assert "step around" in made["isolation_sentence"]
    assert api_client(place.owner).get(address).json()["results"] == [made]
    one = f"{address}{made['id']}/"
    assert superadmin.patch(one, {"mode": "mps"}, format="json").json()["fields"].keys() == {"hook_image"}
    changed = superadmin.patch(one, {"mode": "mps", "hook_image": ""}, format="json").json()
    assert (changed["mode"], changed["isolation"]) == ("mps", "server")
    assert superadmin.delete(one).status_code == 204
    assert superadmin.get(address).json()["count"] == 0
