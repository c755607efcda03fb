"""REST of budgets and prices."""

import pytest

from accounts.budgets.selectors import tomorrow
from accounts.core.roles import Role
from tests.factories import api_client, make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db


@pytest.mark.usefixtures("standing_clock")
def test_budget_is_created_previewed_changed_and_deleted(place: Place) -> None:
    api = api_client(make_user(domain=place.project.domain, role=Role.SUPERADMIN))
    body = {"level": "user", "id": place.owner.pk, "unit": "money", "amount": "99.50", "period": "month"}
    made = api.post("/api/v1/budgets/", body, format="json")
    assert made.status_code == 201, made.json()
    price = {"slot_name": "cpu", "since": tomorrow().isoformat(), "per_hour": "0.05"}
    assert api.post("/api/v1/prices/", price, format="json").json()["per_hour"] == "0.050000"
    [seen] = api_client(place.owner).get("/api/v1/budgets/").json()["results"]
    assert (seen["owner"], seen["amount"], seen["spent"], seen["left"]) == (
        place.owner.email, "99.50", "0.00", "99.50",
    )  # fmt: skip
    assert api_client(make_user()).get("/api/v1/budgets/").json()["results"] == []
    address = f"/api/v1/budgets/{made.json()['id']}/"
    impact = api.post(
        "/api/v1/budgets/impact/", {**body, "amount": "0", "is_hard": True}, format="json"
    ).json()
    assert (impact["people"], impact["spent"], impact["refuses"]) == (1, "0.00", True)
    change = {"amount": "0", "is_hard": True}
    assert api.post(f"{address}impact/", change, format="json").json()["refuses"] is True
    assert api.get(address).json()["is_hard"] is False, "nothing is saved yet"
    assert api.patch(address, change, format="json").json()["is_used_up"] is True
    assert api.delete(f"/api/v1/budgets/{made.json()['id']}/").status_code == 204
    assert api.post("/api/v1/budgets/", {**body, "period": "term"}, format="json").status_code == 400
