"""Fair-share weights: permissions, values, and the list of entries."""

from decimal import Decimal
from typing import Any

import pytest

from accounts.core.limits import Level
from accounts.core.roles import Role
from accounts.models import User
from agents.grantee import Grantee
from common import clock
from common.actors import SYSTEM
from common.errors import InvalidInput, NotFound, PermissionDenied
from common.models import AuditEntry
from scheduler.fairness.standings import FairShareEntry, read_fair_share_entries
from scheduler.fairness.weights import set_share_weight
from scheduler.models import DecayedUse, ShareWeight
from scheduler.run_state import run_state
from scheduler.tick import run_tick
from tests.factories import actor_for, make_project, make_user
from tests.factories_scheduler import Cluster, make_cluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    """Fair share on eight cores."""
    cluster = make_cluster(scheduler="fair_share")
    cluster.add_agent({"cpu": 8000})
    return cluster


def weigh(cluster: Cluster, holder: Grantee, weight: Any) -> Decimal:
    return set_share_weight(actor=SYSTEM, group_id=cluster.group.pk, holder=holder, weight=weight)


def standings(cluster: Cluster, level: Level) -> dict[str, FairShareEntry]:
    cluster.group.refresh_from_db()
    return {each.name: each for each in read_fair_share_entries(cluster.group, level)}


def test_a_weight_is_set_changed_and_taken_back(cluster: Cluster) -> None:
    epoch = run_state(cluster.group).epoch
    weigh(cluster, cluster.owner, Decimal(3))
    weigh(cluster, cluster.owner, Decimal("0.5"))
    weigh(cluster, cluster.owner, Decimal("0.500"))
    assert [row.weight for row in ShareWeight.objects.all()] == [Decimal("0.5")]
    weigh(cluster, cluster.owner, Decimal(1))
    assert not ShareWeight.objects.exists()

    told = AuditEntry.objects.filter(action="scheduler.set_share_weight").order_by("pk")
    assert [entry.changes["weight"] for entry in told] == [["1", "3"], ["3", "0.5"], ["0.5", "1"]]
    assert told[0].changes["user"] == cluster.owner.email
    cluster.group.refresh_from_db()
    assert run_state(cluster.group).epoch == epoch + 3, "what was planned by the old weight is stale"


@pytest.mark.parametrize("weight", ["0", "-1", "1000.001", "0.0001", "NaN", "Infinity", "12345678"])
def test_what_is_no_weight_is_refused(cluster: Cluster, weight: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        weigh(cluster, cluster.owner, Decimal(weight))
    assert list(refusal.value.fields) == ["weight"]
    assert not ShareWeight.objects.exists()


@pytest.mark.parametrize(
    ("role", "refusal"), [(Role.USER, PermissionDenied), (Role.DOMAIN_ADMIN, PermissionDenied)]
)
def test_superadmins_alone_set_weights(cluster: Cluster, role: Role, refusal: type[Exception]) -> None:
    person = make_user(domain=cluster.project.domain, role=role)
    wanted: dict[str, Any] = {"actor": actor_for(person), "holder": person, "weight": Decimal(1000)}
    with pytest.raises(refusal):
        set_share_weight(group_id=cluster.group.pk, **wanted)
    with pytest.raises(NotFound):
        set_share_weight(group_id=0, **wanted)


def test_everybody_stands_where_use_and_weight_put_them(cluster: Cluster) -> None:
    other: User = make_user(member_of=cluster.project)
    project = make_project()
    for owner in (cluster.owner, other):
        cluster.add_pending({"cpu": 2000}, owner=owner)
    run_tick(cluster.group.pk)
    cluster.add_pending({"cpu": 9000}, owner=other)
    weigh(cluster, other, Decimal(3))
    weigh(cluster, project, Decimal(4))

    people = standings(cluster, Level.USER)
    assert list(people) == [other.email, cluster.owner.email]
    mine, theirs = people[cluster.owner.email], people[other.email]
    assert (mine.held, theirs.held, theirs.weight) == (0.25, 0.25, 3)
    assert (mine.target, theirs.target) == (pytest.approx(0.5 / 4), pytest.approx(0.5 * 3 / 4))
    assert theirs.counts == pytest.approx(mine.counts / 3, rel=1e-3)
    assert theirs.above == (cluster.project.domain.name, cluster.project.name)

    domains = standings(cluster, Level.DOMAIN)
    assert {each.target for each in domains.values()} == {0.5}, "one of them for its project's weight alone"
    assert list(domains) == [project.domain.name, cluster.project.domain.name]
    projects = standings(cluster, Level.PROJECT)
    assert projects[project.name].holder_name == f"{project.domain.name}/{project.name}"
    assert (projects[project.name].target, projects[project.name].counts) == (0.5, 0)


def test_a_person_who_has_a_weight_and_nothing_else_is_listed_last(cluster: Cluster) -> None:
    weigh(cluster, cluster.owner, Decimal(2))
    [standing] = standings(cluster, Level.USER).values()
    assert (standing.name, standing.target, standing.above) == (cluster.owner.email, None, ())


def test_use_of_a_deleted_user_counts_for_the_project(cluster: Cluster) -> None:
    DecayedUse.objects.create(
        group_id=cluster.group.pk, project_id=cluster.project.pk, user_id=0, slot_name="cpu", average=4000,
        as_of=clock.now(),
    )  # fmt: skip
    assert standings(cluster, Level.USER) == {}
    assert standings(cluster, Level.PROJECT)[cluster.project.name].lately == pytest.approx(0.5, rel=1e-3)


def test_unused_group_has_no_fair_share_entries(cluster: Cluster, django_assert_max_num_queries: Any) -> None:
    with django_assert_max_num_queries(8):
        assert read_fair_share_entries(cluster.group, Level.DOMAIN) == []
