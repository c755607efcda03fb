"""Shares and weights of resource groups over REST."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from accounts.core.roles import Role
from scheduler.tick import run_tick
from tests.factories import api_client, make_user
from tests.factories_scheduler import Cluster, make_cluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    cluster = make_cluster(scheduler="fair_share")
    cluster.add_agent({"cpu": 4000})
    cluster.add_pending({"cpu": 1000})
    run_tick(cluster.group.pk)
    return cluster


@pytest.fixture
def superadmin(cluster: Cluster) -> APIClient:
    return api_client(make_user(domain=cluster.project.domain, role=Role.SUPERADMIN))


def test_weights_are_set_and_standings_listed(cluster: Cluster, superadmin: APIClient) -> None:
    address = f"/api/v1/resource-groups/{cluster.group.pk}/weights/"
    body = {"level": "user", "id": cluster.owner.pk, "weight": 2}
    told = superadmin.put(address, body, format="json")
    assert (told.status_code, told.json()) == (
        200,
        {"level": "user", "id": cluster.owner.pk, "name": cluster.owner.email, "weight": 2.0},
    )

    listed = superadmin.get(address, {"level": "user"}).json()
    [standing] = listed["results"]
    assert listed["count"] == 1
    assert (standing["above"], standing["target"], standing["held"]) == (
        [cluster.project.domain.name, cluster.project.name],
        1.0,
        0.25,
    )
    assert standing["counts"] == pytest.approx((standing["held"] + 4 * standing["lately"]) / 2)
    assert superadmin.get(address).json()["results"][0]["level"] == "domain"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"weight": 0}, "weight"), ({"weight": -3}, "weight"), ({"weight": 1001}, "weight"),
        ({"weight": "NaN"}, "weight"), ({"weight": 0.0001}, "weight"), ({"level": "keypair"}, "level"),
        ({"id": 0}, "id"), ({"wieght": 1}, "wieght"),
    ],
)  # fmt: skip
def test_what_is_no_weight_is_refused(
    cluster: Cluster, superadmin: APIClient, change: dict[str, Any], field: str
) -> None:
    body = {"level": "user", "id": cluster.owner.pk, "weight": 1, **change}
    answer = superadmin.put(f"/api/v1/resource-groups/{cluster.group.pk}/weights/", body, format="json")
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])


def test_unknown_levels_and_people_are_said(cluster: Cluster, superadmin: APIClient) -> None:
    address = f"/api/v1/resource-groups/{cluster.group.pk}/weights/"
    assert superadmin.get(address, {"level": "keypair"}).status_code == 400
    assert superadmin.get(address, {"level": ""}).status_code == 400
    absent = {"level": "user", "id": 10**9, "weight": 2}
    assert superadmin.put(address, absent, format="json").status_code == 404
