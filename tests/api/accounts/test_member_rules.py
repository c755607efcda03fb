"""REST of the rules that make users members of a project."""

import pytest

from tests import factories
from tests.conftest import People

pytestmark = pytest.mark.django_db


def test_rules_are_read_previewed_and_set(people: People) -> None:
    program = factories.api_client(people.domain_admin)
    address = f"/api/v1/projects/{people.project.pk}/rules/"
    body = {"rules": [{"kind": "all"}]}
    assert program.post(f"{address}impact/", body, format="json").json()["joining_count"] == 3
    assert program.put(address, body, format="json").json()["rules"] == [{"kind": "all", "value": ""}]
    assert program.get(address).json()["rules"] == [{"kind": "all", "value": ""}]
    listed = program.get(f"/api/v1/projects/{people.project.pk}/members/").json()["results"]
    assert {row["email"]: row["is_by_rule"] for row in listed}[people.outsider.email] is True
    wrong = program.put(address, {"rules": [{"kind": "mail", "value": "not one"}]}, format="json")
    assert (wrong.status_code, "rules" in wrong.json()["fields"]) == (400, True)
