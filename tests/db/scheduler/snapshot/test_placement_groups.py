"""Sessions of a placement group are spread or packed by the rule of each."""

from dataclasses import replace
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from agents.core.states import AgentState
from agents.models import Agent
from common.errors import InvalidInput
from scheduler.commit.plan_commit import StalePlan, commit_plan
from scheduler.engine import Gang, GroupHost, PlacementGroup, PlacementRule, plan
from scheduler.forecast import snapshot_cache
from scheduler.snapshot.placement_groups import read_group_hosts
from scheduler.snapshot.reader import read_snapshot
from scheduler.tick import run_tick
from sessions_app.admission.forecast import forecast_session
from sessions_app.core import placement
from sessions_app.core.request import parse_request
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession
from sessions_app.session_templates.quick_start import session_request_body
from tests.factories import actor_for
from tests.factories_scheduler import Cluster, make_cluster
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
GIB = 2**30
SMALL = {"cpu": 1000, "mem": GIB}
GROUP = "web"


@pytest.fixture
def cluster(db: None) -> Cluster:
    """Three machines for four small sessions each."""
    cluster = make_cluster()
    for _ in range(3):
        cluster.add_agent({"cpu": 4000, "mem": 8 * GIB})
    return cluster


def add(cluster: Cluster, rule: str, group: str = GROUP, **asked: Any) -> ComputeSession:
    session = cluster.add_pending(SMALL, **asked)
    ComputeSession.objects.filter(pk=session.pk).update(placement_group=group, placement_rule=rule)
    return session


def machines(*sessions: ComputeSession) -> list[int | None]:
    return [ComputeSession.objects.get(pk=each.pk).kernels.get().agent_id for each in sessions]


def key(cluster: Cluster) -> str:
    return placement.placement_key(cluster.project.pk, cluster.owner.pk, GROUP)


def test_the_words_of_requests_are_those_of_the_engine() -> None:
    assert list(map(str, PlacementRule)) == list(map(str, placement.PlacementRule))
    assert list(map(str, Gang)) == list(map(str, placement.Gang))


def test_spread_puts_each_on_another_machine_and_then_on_that_with_the_fewest(cluster: Cluster) -> None:
    sessions = [add(cluster, "spread", age_s=9 - number) for number in range(6)]
    run_tick(cluster.group.pk)
    first, second = machines(*sessions[:3]), machines(*sessions[3:])
    assert len(set(first)) == len(set(second)) == 3


def test_strict_spread_waits_and_says_why(cluster: Cluster) -> None:
    sessions = [add(cluster, "strict_spread", age_s=9 - number) for number in range(4)]
    run_tick(cluster.group.pk)
    assert len(set(machines(*sessions[:3]))) == 3
    run_tick(cluster.group.pk)
    waits = ComputeSession.objects.get(pk=sessions[3].pk)
    assert (waits.status, waits.status_reason) == (Status.PENDING, "placement_rule")
    assert "room for it now (3) run others of its placement group" in str(waits.status_message)


def test_pack_goes_to_the_machines_of_the_others_first(cluster: Cluster) -> None:
    ids = list(Agent.objects.values_list("pk", flat=True).order_by("pk"))
    Agent.objects.exclude(pk=ids[2]).update(state=AgentState.DRAINING.value)
    first = add(cluster, "pack")
    run_tick(cluster.group.pk)
    Agent.objects.update(state=AgentState.CONNECTED.value)
    others = [add(cluster, "pack", age_s=9 - number) for number in range(4)]
    run_tick(cluster.group.pk)
    assert machines(first, *others[:3]) == [ids[2]] * 4
    assert machines(others[3]) != [ids[2]]


def test_strict_pack_waits_for_the_machines_of_the_others(cluster: Cluster) -> None:
    sessions = [add(cluster, "strict_pack", age_s=9 - number) for number in range(5)]
    run_tick(cluster.group.pk)
    assert len(set(machines(*sessions[:4]))) == 1
    waits = ComputeSession.objects.get(pk=sessions[4].pk)
    assert (waits.status_reason, machines(waits)) == ("placement_rule", [None])
    assert "on the agents that run others of its placement group (1)" in str(waits.status_message)


def test_groups_of_another_name_or_owner_are_others(cluster: Cluster) -> None:
    sessions = [add(cluster, "strict_pack", age_s=9), add(cluster, "strict_spread", "db", age_s=8)]
    run_tick(cluster.group.pk)
    assert len(set(machines(*sessions))) == 1
    assert list(read_group_hosts(cluster.group.pk, [key(cluster)])[key(cluster)]) == [
        GroupHost(machines(sessions[0])[0] or 0, 1)
    ]


def test_sessions_without_placement_group_cost_no_query(cluster: Cluster) -> None:
    cluster.add_pending(SMALL)
    with CaptureQueriesContext(connection) as plain:
        snapshot = read_snapshot(cluster.group.pk)
    assert (snapshot.group_hosts, snapshot.pending[0].requirements.placement_group) == ({}, None)
    add(cluster, "spread")
    with CaptureQueriesContext(connection) as named:
        snapshot = read_snapshot(cluster.group.pk)
    assert len(named) == len(plain) + 1
    assert snapshot.group_hosts == {key(cluster): ()}


def test_a_plan_is_stale_where_another_of_the_group_was_placed_since(cluster: Cluster) -> None:
    first, second = add(cluster, "strict_spread", age_s=9), add(cluster, "strict_spread", age_s=8)
    snapshot = read_snapshot(cluster.group.pk)
    of_first, of_second = (
        replace(snapshot, pending=tuple(each for each in snapshot.pending if each.id == session.pk))
        for session in (first, second)
    )
    stale = plan(of_second, read_at(snapshot))
    assert commit_plan(plan(of_first, read_at(snapshot))) == [first.pk]
    assert stale.placements[0].agent_ids == tuple(machines(first))
    with pytest.raises(StalePlan):
        commit_plan(stale)
    assert machines(second) == [None]


def read_at(snapshot: Any) -> Any:
    return snapshot.pending[0].enqueued_at


@pytest.mark.parametrize("rule", ["strict_spread", "strict_pack"])
def test_those_that_come_one_after_the_other_keep_to_the_rule(cluster: Cluster, rule: str) -> None:
    sessions = []
    for _ in range(3):
        sessions.append(add(cluster, rule))
        assert run_tick(cluster.group.pk) == [sessions[-1].pk]
    assert len(set(machines(*sessions))) == (3 if rule == "strict_spread" else 1)


def test_the_elements_of_an_array_are_a_group(db: None) -> None:
    place = make_place()
    first = place.enqueue(
        type="batch",
        command="true",
        array="1-3",
        placement_rule="strict_spread",
        resources={"cpu": 1, "mem": "64m"},
    )
    pending = read_snapshot(place.group.pk).pending
    assert {each.requirements.placement_group for each in pending} == {
        PlacementGroup(str(first.array_id), PlacementRule.STRICT_SPREAD)
    }
    run_tick(place.group.pk)
    statuses = ComputeSession.objects.filter(array=first.array).values_list("status", flat=True)
    assert sorted(statuses) == [Status.PENDING, Status.PENDING, Status.SCHEDULED]
    assert session_request_body(first, name="again")["placement_rule"] == ""


def test_gangs_are_read_from_the_session(cluster: Cluster) -> None:
    one, spread, too_many = (cluster.add_pending(SMALL, kernels=count, age_s=9) for count in (3, 3, 4))
    ComputeSession.objects.filter(pk=one.pk).update(gang="one_machine")
    ComputeSession.objects.filter(pk__in=[spread.pk, too_many.pk]).update(gang="spread")
    run_tick(cluster.group.pk)
    hosts = [set(each.kernels.values_list("agent_id", flat=True)) for each in (one, spread)]
    assert [len(each) for each in hosts] == [1, 3]
    waits = ComputeSession.objects.get(pk=too_many.pk)
    assert waits.status_reason == "never_fits"
    assert "Needs 4 agents" in str(waits.status_message)
    assert "only 3 that are large enough" in str(waits.status_message)


def test_check_knows_agents_of_the_group(db: None) -> None:
    snapshot_cache.clear_cache()
    place = make_place()
    place.run(placement_group=GROUP, placement_rule="spread")
    asked = {"name": "new", "placement_group": GROUP}
    actor = actor_for(place.owner)
    apart = forecast_session(actor, parse_request(place.request(**asked, placement_rule="strict_spread")))
    assert (apart.outlook.reason, apart.outlook.start_range) == ("placement_rule", None)
    beside = forecast_session(actor, parse_request(place.request(**asked, placement_rule="strict_pack")))
    assert beside.outlook.agent == place.agent.name


@pytest.mark.parametrize("asked", [{"placement_rule": "spread"}, {"placement_group": GROUP}])
def test_a_group_without_a_rule_and_a_rule_without_a_group_are_refused(
    place: Place, asked: dict[str, str]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        place.enqueue(**asked)
    assert list(refused.value.fields) == list(asked)


def test_database_refuses_invalid_placement_groups(place: Place) -> None:
    session = place.enqueue(placement_group=GROUP, placement_rule="pack")
    wrong = [{"placement_rule": "near"}, {"placement_rule": ""}, {"placement_group": ""}, {"gang": "odd"}]
    for values in wrong:
        with pytest.raises(IntegrityError), transaction.atomic():
            ComputeSession.objects.filter(pk=session.pk).update(**values)


def test_one_more_like_it_is_of_its_group(place: Place) -> None:
    session = place.enqueue(placement_group=GROUP, placement_rule="pack")
    like = session_request_body(session, name="again")
    assert (like["placement_group"], like["placement_rule"]) == (GROUP, "pack")


def test_members_in_another_resource_group_do_not_count(cluster: Cluster) -> None:
    first = add(cluster, "strict_pack")
    run_tick(cluster.group.pk)
    Agent.objects.filter(pk=machines(first)[0]).update(resource_group=make_cluster().group)
    second = add(cluster, "strict_pack")
    run_tick(cluster.group.pk)
    assert machines(second)[0] not in (None, machines(first)[0])
