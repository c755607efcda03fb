"""Past use is recorded, decays, and decides the order under fair share."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from accounts.core.limits import Level
from accounts.models import User
from agents.models import Agent
from agents.resource_groups.service import move_agent, update_resource_group
from common import clock
from common.actors import SYSTEM
from common.errors import InvalidInput
from scheduler.engine import Policy
from scheduler.fairness.usage import Usage, read_usage, sum_by_holder
from scheduler.models import DecayedUse, ShareWeight
from scheduler.snapshot.reader import read_snapshot
from scheduler.tick import run_tick
from sessions_app.models import ComputeSession, KernelAllocation
from tests import factories
from tests.db.scheduler.test_concurrent_ticks import at_the_same_time
from tests.factories_scheduler import Cluster, make_cluster

pytestmark = pytest.mark.django_db
CORE = {"cpu": 1000}
HALF_LIFE = timedelta(hours=1)


@pytest.fixture
def cluster() -> Cluster:
    """Fair share on four cores."""
    cluster = make_cluster(scheduler="fair_share", usage_half_life_s=3600)
    cluster.add_agent({"cpu": 4000})
    return cluster


def hold(
    cluster: Cluster, slots: dict[str, int], span: timedelta, owner: User | None = None
) -> ComputeSession:
    """A session that holds this since so long."""
    session = cluster.add_pending(slots, owner=owner, priority=100)
    assert session.pk in run_tick(cluster.group.pk)
    with unguarded() as cursor:
        cursor.execute(
            "UPDATE sessions_app_kernelallocation SET held_since = clock_timestamp() - %s"
            " WHERE kernel_id IN (SELECT id FROM sessions_app_kernel WHERE session_id = %s)",
            [span, session.pk],
        )
    return session


@contextmanager
def unguarded() -> Iterator[Any]:
    """Rows of the ledger may be made older."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE sessions_app_kernelallocation DISABLE TRIGGER USER")
        yield cursor
        cursor.execute("ALTER TABLE sessions_app_kernelallocation ENABLE TRIGGER USER")


def release(*sessions: ComputeSession) -> int:
    """As `lifecycle` does, in one statement; how many rows there were."""
    rows = KernelAllocation.objects.filter(kernel__session__in=sessions)
    return rows.delete()[0]


def lately(cluster: Cluster, owner: User | None = None, after: timedelta = timedelta()) -> float:
    """Millicores that somebody held on average, as seen then."""
    cluster.group.refresh_from_db()
    uses = sum_by_holder(read_usage(cluster.group, clock.now() + after), [Level.USER])
    return uses.get((Level.USER, (owner or cluster.owner).pk), Usage()).lately.get("cpu", 0.0)


def test_half_of_it_counts_after_a_half_life_and_nothing_is_written_while_it_runs(cluster: Cluster) -> None:
    session = hold(cluster, CORE, HALF_LIFE)
    assert lately(cluster) == pytest.approx(500, abs=2)
    assert not DecayedUse.objects.exists()

    assert release(session) == 1
    assert lately(cluster) == pytest.approx(500, abs=2), "what ended counts as it did while it ran"
    assert lately(cluster, after=HALF_LIFE) == pytest.approx(250, abs=1)
    assert lately(cluster, after=500 * HALF_LIFE) == pytest.approx(0)


def test_a_release_charges_once_however_often_it_runs_and_not_at_all_if_it_is_undone(
    cluster: Cluster,
) -> None:
    session = hold(cluster, CORE, HALF_LIFE)
    with transaction.atomic():
        release(session)
        transaction.set_rollback(True)
    assert not DecayedUse.objects.exists()

    assert [release(session), release(session)] == [1, 0]
    assert DecayedUse.objects.get().average == pytest.approx(500, abs=2)


@pytest.mark.django_db(transaction=True)
def test_sessions_of_one_person_that_end_at_the_same_time_are_all_charged(transactional_db: None) -> None:
    cluster = make_cluster(scheduler="fair_share", usage_half_life_s=3600)
    cluster.add_agent({"cpu": 4000, "mem": 4})
    sessions = [hold(cluster, {"cpu": 1000, "mem": 1}, HALF_LIFE) for _ in range(4)]
    released = at_the_same_time(*[partial(release, session) for session in (*sessions, *sessions)])
    assert sorted(released) == [0] * 4 + [2] * 4  # type: ignore[type-var]
    assert lately(cluster) == pytest.approx(2000, rel=0.01)


def test_a_tick_that_dies_before_it_commits_is_made_again_alike(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = factories.make_user(member_of=cluster.project)
    release(hold(cluster, CORE, HALF_LIFE))
    cluster.add_pending({"cpu": 4000}, age_s=600)
    of_other = cluster.add_pending({"cpu": 4000}, owner=other)
    with monkeypatch.context() as patch:
        patch.setattr("scheduler.tick.commit_plan", lambda _: sys.exit(9))
        with pytest.raises(SystemExit):
            run_tick(cluster.group.pk)
    assert not KernelAllocation.objects.exists()
    assert [run_tick(cluster.group.pk), run_tick(cluster.group.pk)] == [[of_other.pk], []]


def test_sessions_that_end_together_or_one_by_one_are_charged_alike(cluster: Cluster) -> None:
    together, other = cluster.owner, factories.make_user(member_of=cluster.project)
    spans = (HALF_LIFE / 2, 3 * HALF_LIFE)
    release(*[hold(cluster, CORE, span, together) for span in spans])
    for session in [hold(cluster, CORE, span, other) for span in spans]:
        release(session)
    assert lately(cluster, other) == pytest.approx(lately(cluster), rel=1e-3)
    assert lately(cluster) == pytest.approx(1000 * ((1 - 0.5**0.5) + (1 - 0.5**3)), rel=1e-3)


def test_another_half_life_counts_from_now_on(cluster: Cluster) -> None:
    release(hold(cluster, CORE, 10 * HALF_LIFE))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduler_decayeduse SET as_of = as_of - %s", [HALF_LIFE])
    before = lately(cluster)
    update_resource_group(
        actor=SYSTEM, group_id=cluster.group.pk, changes={"usage_half_life_s": 24 * 60 * 60}
    )
    assert lately(cluster) == pytest.approx(before, rel=1e-3) == pytest.approx(500, rel=0.01)
    assert lately(cluster, after=timedelta(days=1)) == pytest.approx(before / 2, rel=1e-3)


def test_what_decayed_to_nearly_nothing_is_nothing_whatever_the_half_life_was(cluster: Cluster) -> None:
    release(hold(cluster, CORE, HALF_LIFE))
    for turn in range(7):
        DecayedUse.objects.update(as_of=clock.now() - timedelta(days=365))
        changes = {"usage_half_life_s": 600 + turn}
        update_resource_group(actor=SYSTEM, group_id=cluster.group.pk, changes=changes)
    assert lately(cluster) == 0


@pytest.mark.parametrize("half_life_s", [0, 599, 366 * 86400 + 1])
def test_a_half_life_is_ten_minutes_to_a_year(cluster: Cluster, half_life_s: int) -> None:
    with pytest.raises(InvalidInput) as refusal:
        update_resource_group(
            actor=SYSTEM, group_id=cluster.group.pk, changes={"usage_half_life_s": half_life_s}
        )
    assert list(refusal.value.fields) == ["usage_half_life_s"]


def test_a_clock_that_was_wrong_costs_nothing_and_breaks_nothing(cluster: Cluster) -> None:
    release(hold(cluster, CORE, -timedelta(hours=1)))  # it begins after it ends
    assert lately(cluster) == 0
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduler_decayeduse SET average = 800, as_of = as_of + interval '1 hour'")
    release(hold(cluster, CORE, 100 * HALF_LIFE))
    assert lately(cluster) == pytest.approx(800 + 1000 / 2, rel=1e-3)


def test_what_runs_goes_with_a_machine_that_is_moved_and_what_has_ended_stays(cluster: Cluster) -> None:
    release(hold(cluster, CORE, HALF_LIFE))
    session, other = hold(cluster, CORE, HALF_LIFE), make_cluster()
    move_agent(actor=SYSTEM, agent_id=Agent.objects.get().pk, group_id=other.group.pk)
    assert lately(cluster) == pytest.approx(500, abs=2)
    release(session)
    assert lately(cluster) == pytest.approx(500, abs=2), "of what had ended alone"
    assert DecayedUse.objects.filter(group_id=other.group.pk).exists()


def test_user_with_less_recent_use_goes_first(cluster: Cluster) -> None:
    other = factories.make_user(member_of=cluster.project)
    release(hold(cluster, CORE, HALF_LIFE))
    cluster.add_pending({"cpu": 4000}, age_s=600)
    of_other = cluster.add_pending({"cpu": 4000}, owner=other)
    assert run_tick(cluster.group.pk) == [of_other.pk]


def test_weights_are_read_for_the_policies_that_count_them(cluster: Cluster) -> None:
    other = factories.make_user(member_of=cluster.project)
    ShareWeight.objects.create(group=cluster.group, user=other, weight=3)
    ShareWeight.objects.create(group=cluster.group, domain=cluster.project.domain, weight=2)
    for owner in (cluster.owner, other):
        for _ in range(4):
            cluster.add_pending(CORE, owner=owner, age_s=60 if owner == cluster.owner else 0)

    tenants = read_snapshot(cluster.group.pk).tenants
    assert {key: each.weight for key, each in tenants.items()} == {
        f"user:{other.pk}": 3,
        f"domain:{cluster.project.domain_id}": 2,
    }
    placed = ComputeSession.objects.filter(pk__in=run_tick(cluster.group.pk))
    assert sorted(placed.values_list("owner_id", flat=True)) == [cluster.owner.pk, *[other.pk] * 3]


def test_domains_projects_and_owners_have_shares_in_what_their_machines_are(cluster: Cluster) -> None:
    hold(cluster, {"cpu": 2000}, HALF_LIFE)
    cluster.add_pending({"cpu": 9000})
    project = cluster.project
    tenants = read_snapshot(cluster.group.pk).tenants
    assert set(tenants) == {
        f"domain:{project.domain_id}", f"project:{project.pk}", f"user:{cluster.owner.pk}"
    }  # fmt: skip
    for tenant in tenants.values():
        assert dict(tenant.allocated.items()) == {"cpu": 2000}
        assert tenant.past_share == pytest.approx(0.25, rel=0.01)

    Agent.objects.get().slots.update(capacity=8000)
    assert read_snapshot(cluster.group.pk).tenants[f"user:{cluster.owner.pk}"].past_share == pytest.approx(
        0.125, rel=0.01
    )


def test_use_in_a_deleted_project_counts_for_nobody(cluster: Cluster) -> None:
    DecayedUse.objects.create(
        group_id=cluster.group.pk, project_id=0, user_id=cluster.owner.pk, slot_name="cpu", average=4000,
        as_of=clock.now(),
    )  # fmt: skip
    assert read_usage(cluster.group, clock.now()) == {}


def test_a_snapshot_costs_two_queries_more_where_shares_count(
    cluster: Cluster, django_assert_num_queries: Any
) -> None:
    cluster.add_pending(CORE)
    with django_assert_num_queries(8):
        read_snapshot(cluster.group.pk)
    cluster.group.scheduler = Policy.FIFO
    cluster.group.save()
    with django_assert_num_queries(6):
        read_snapshot(cluster.group.pk)


@pytest.mark.parametrize("columns", [{"weight": 0}, {"weight": -1}, {"weight": 1001}, {"user": None}])
def test_the_database_refuses_weights_that_are_none(cluster: Cluster, columns: dict[str, Any]) -> None:
    wanted: dict[str, Any] = {"group": cluster.group, "user": cluster.owner, "weight": 1, **columns}
    with pytest.raises(IntegrityError), transaction.atomic():
        ShareWeight.objects.create(**wanted)


def test_sessions_of_one_owner_have_one_object_of_tenants_by_whichever_token(cluster: Cluster) -> None:
    """The engine knows an owner by that object, once for each session that waits."""
    factories.make_token(cluster.owner, "laptop")
    factories.make_token(cluster.owner, "cluster")
    for token in (None, *cluster.owner.keypairs.all()) * 2:
        cluster.add_pending(CORE, keypair=token)
    pending = read_snapshot(cluster.group.pk).pending
    assert len({session.scopes for session in pending}) == 3
    assert len({id(session.tenants) for session in pending}) == 1
