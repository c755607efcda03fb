"""The page of fair-share weights of a resource group."""

from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from accounts.core.roles import Role
from common.actors import SYSTEM
from scheduler.fairness.weights import set_share_weight
from scheduler.models import ShareWeight
from scheduler.tick import run_tick
from tests.factories import make_user
from tests.factories_scheduler import Cluster, make_cluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    """One of two sessions runs, on half of it."""
    cluster = make_cluster(scheduler="fair_share")
    cluster.add_agent({"cpu": 4000})
    for cores in (2, 4):
        cluster.add_pending({"cpu": 1000 * cores})
    run_tick(cluster.group.pk)
    return cluster


@pytest.fixture
def address(cluster: Cluster) -> str:
    return f"/resource-groups/{cluster.group.pk}/weights/"


@pytest.fixture
def superadmin(cluster: Cluster, browser_of: Any) -> Client:
    return browser_of(make_user(domain=cluster.project.domain, role=Role.SUPERADMIN))


@pytest.mark.parametrize("level", ["domain", "project", "user"])
def test_a_weight_is_set_in_its_row(cluster: Cluster, superadmin: Client, address: str, level: str) -> None:
    project, owner = cluster.project, cluster.owner
    name = {
        "domain": project.domain.name,
        "project": f"{project.domain.name}/{project.name}",
        "user": owner.email,
    }[level]
    shown = superadmin.get(address, {"level": level}).content.decode()
    assert f'name="holder" value="{name}"' in shown
    assert "50.0 %" in shown

    sent = {"level": level, "holder": name, "weight": "2.5"}
    assert superadmin.post(address, sent)["Location"] == f"{address}?level={level}"
    assert ShareWeight.objects.get().weight == Decimal("2.5")
    shown = superadmin.get(address, {"level": level}).content.decode()
    assert 'value="2.5"' in shown
    assert ">20.00<" in shown, "a half, for two and a half times the weight"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"weight": "0"}, "greater than or equal to 0.001"),
        ({"weight": "-1"}, "greater than or equal to 0.001"),
        ({"weight": "1001"}, "less than or equal to 1000"),
        ({"weight": "many"}, "Enter a number"),
        ({"holder": "nobody@berth.example"}, "nobody@berth.example"),
        ({"level": "keypair"}, "Select a valid choice"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_typed_is_lost(
    cluster: Cluster, superadmin: Client, address: str, sent: dict[str, str], words: str
) -> None:
    typed = {"level": "user", "holder": cluster.owner.email, "weight": "3", **sent}
    answer = superadmin.post(address, typed)
    page = answer.content.decode()
    assert (answer.status_code, words in page, typed["holder"] in page) == (422, True, True)
    assert not ShareWeight.objects.exists()


def test_what_is_searched_is_found_and_names_of_people_are_text(
    cluster: Cluster, superadmin: Client, address: str
) -> None:
    assert (
        cluster.owner.email
        in superadmin.get(address, {"level": "user", "q": cluster.project.name}).content.decode()
    )
    shown = superadmin.get(address, {"level": "user", "q": "<b>"}).content.decode()
    assert "Nobody matches" in shown
    assert "&lt;b&gt;" in shown
    empty = make_cluster(scheduler="fair_share").group
    assert "No shares yet" in superadmin.get(f"/resource-groups/{empty.pk}/weights/").content.decode()


@pytest.mark.parametrize(
    ("scheduler", "words"),
    [
        ("fifo", "weights count once fair share decides"),
        ("drf", "Weights of people count"),
        ("fair_share", ""),
    ],
)
def test_it_says_whether_weights_count(
    cluster: Cluster, superadmin: Client, address: str, scheduler: str, words: str
) -> None:
    cluster.group.scheduler = scheduler
    cluster.group.save()
    page = superadmin.get(address).content.decode()
    assert ("In this group" in page) == bool(words)
    assert words in page


def test_monitors_look_and_change_nothing(cluster: Cluster, browser_of: Any, address: str) -> None:
    set_share_weight(actor=SYSTEM, group_id=cluster.group.pk, holder=cluster.owner, weight=Decimal(3))
    monitor = browser_of(make_user(role=Role.MONITOR))
    page = monitor.get(address, {"level": "user"}).content.decode()
    assert cluster.owner.email in page
    assert 'name="weight"' not in page
    assert monitor.post(address, {}).status_code == 404
