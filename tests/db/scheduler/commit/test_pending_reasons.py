"""A tick writes the reason of a pending session only if it changed, and figures of long queues rarely."""

import pytest
from django.db import IntegrityError, connection

from common.actors import SYSTEM
from scheduler.commit import pending_reasons, plan_commit
from scheduler.commit.plan_commit import StalePlan, commit_plan
from scheduler.group_cache import GroupCache
from scheduler.tick import run_tick
from sessions_app.core.states import Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession
from tests.db.scheduler.test_tick import GIB, SMALL, drain, fresh, plan_now
from tests.factories_scheduler import Cluster, make_cluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(db: None) -> Cluster:
    return make_cluster()


def row_version(session: ComputeSession) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT ctid FROM {ComputeSession._meta.db_table} WHERE id = %s", [session.pk])
        return str(cursor.fetchone()[0])


def test_pending_reason_is_written_only_if_it_changes(cluster):
    session = cluster.add_pending(SMALL)
    run_tick(cluster.group.pk)
    before = row_version(session)
    run_tick(cluster.group.pk)
    assert row_version(session) == before

    cluster.add_pending(SMALL, priority=1)
    run_tick(cluster.group.pk)
    assert row_version(session) != before
    assert fresh(session).queue_position == 2


@pytest.mark.django_db(transaction=True)
def test_positions_of_a_long_queue_are_written_now_and_then_and_reasons_at_once(cluster, monkeypatch):
    monkeypatch.setattr(pending_reasons, "LONG_QUEUE", 1)
    agent = cluster.add_agent(SMALL)
    waiting = [cluster.add_pending({"cpu": 2000, "mem": GIB}, age_s=age_s) for age_s in (20, 10)]
    run_tick(cluster.group.pk)
    newcomer = cluster.add_pending({"cpu": 2000, "mem": GIB}, priority=1)
    run_tick(cluster.group.pk)
    assert [fresh(each).queue_position for each in (newcomer, *waiting)] == [1, 1, 2]

    drain(agent)
    run_tick(cluster.group.pk)
    assert {fresh(each).status_reason for each in (newcomer, *waiting)} == {"no_agents"}
    monkeypatch.setattr(pending_reasons, "_figures_written", GroupCache(for_s=60))
    cancelled = transitions.transition(
        newcomer.pk, to=Status.CANCELLED, reason=Reason.USER_REQUESTED, actor=SYSTEM
    )
    run_tick(cluster.group.pk)
    assert [fresh(each).queue_position for each in (cancelled, *waiting)] == [None, 1, 2]


@pytest.mark.django_db(transaction=True)
def test_amounts_in_the_sentences_of_a_long_queue_are_written_now_and_then(cluster, monkeypatch):
    monkeypatch.setattr(pending_reasons, "LONG_QUEUE", 1)
    cluster.add_agent({"cpu": 4000, "mem": 8 * GIB})
    cluster.add_pending(SMALL, priority=1)
    waiting = [cluster.add_pending({"cpu": 4000, "mem": GIB}) for _ in range(2)]
    run_tick(cluster.group.pk)
    before = [row_version(each) for each in waiting]
    assert "3 cores free" in str(fresh(waiting[0]).status_message)

    placed = cluster.add_pending(SMALL, priority=1)
    assert run_tick(cluster.group.pk) == [placed.pk]
    assert [row_version(each) for each in waiting] == before

    monkeypatch.setattr(pending_reasons, "_figures_written", GroupCache(for_s=60))
    run_tick(cluster.group.pk)
    assert all("2 cores free" in str(fresh(each).status_message) for each in waiting)


@pytest.mark.django_db(transaction=True)
def test_figures_that_a_refused_plan_would_have_written_are_due_still(cluster, monkeypatch):
    def refuse(*_: object) -> None:
        raise IntegrityError("within_limits")

    monkeypatch.setattr(pending_reasons, "LONG_QUEUE", 0)
    cluster.add_agent({"cpu": 4000, "mem": 8 * GIB})
    waiting = cluster.add_pending({"cpu": 4000, "mem": GIB})
    cluster.add_pending(SMALL, priority=1)
    run_tick(cluster.group.pk)
    cluster.add_pending(SMALL, priority=1)
    monkeypatch.setattr(pending_reasons, "_figures_written", GroupCache(for_s=60))
    with monkeypatch.context() as broken:
        broken.setattr(plan_commit, "_allocate", refuse)
        with pytest.raises(StalePlan):
            commit_plan(plan_now(cluster))
    run_tick(cluster.group.pk)
    assert "2 cores free" in str(fresh(waiting).status_message)
