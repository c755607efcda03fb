"""A simulated cluster runs whole lives of sessions and is removed without remains."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Domain, LimitUse, User
from agents.core.states import AgentState
from agents.machines.service import heartbeat_agents
from agents.machines.simulation import MachineShape
from agents.models import Agent, AgentSlot, ResourceGroup
from agents.resource_groups.service import create_resource_group
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.runtime.simulated.state import Behaviour, RedisMapping
from agents.selectors import runtime_of
from common import clock
from common.actors import SYSTEM
from common.messaging.redis import client
from common.models import AuditEntry
from portal.demo import simulated_cluster
from scheduler.tick import run_tick
from sessions_app.admission.service import enqueue_session
from sessions_app.container_io.kept_logs import find_stored_log
from sessions_app.core.array_spec import check_array
from sessions_app.core.queue_options import DependencyRequest, Hold
from sessions_app.core.states import Reason, Status
from sessions_app.launch import launcher, terminator
from sessions_app.models import ComputeSession, KernelAllocation, SessionArray, SessionDependency
from sessions_app.queue import dependents
from sessions_app.reconciler import loop
from tests.factories_sessions import make_place
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db
SHORT = Behaviour(run_s=0.001)


@pytest.fixture
def cluster() -> Iterator[ResourceGroup]:
    create_resource_group(actor=SYSTEM, name="default", is_default=True)
    yield simulated_cluster.make_cluster(count=3, shape=MachineShape(behaviour=SHORT))
    simulated_cluster.clear()


def submit(group: ResourceGroup, count: int) -> list[ComputeSession]:
    requests = simulated_cluster.workload(simulated_cluster.simulated_people(group), seed=1)
    return [enqueue_session(actor=actor, request=request) for actor, request in islice(requests, count)]


def submit_array(group: ResourceGroup, spec: str) -> None:
    actor, request = next(simulated_cluster.workload(simulated_cluster.simulated_people(group), seed=2))
    enqueue_session(actor=actor, request=replace(request, array=check_array(spec)))


def statuses(group: ResourceGroup) -> set[str]:
    return set(ComputeSession.objects.filter(resource_group=group).values_list("status", flat=True))


def see_all_exit(group: ResourceGroup) -> None:
    """Their containers end by themselves, soon."""

    def all_have() -> bool:
        loop.reconcile_sessions()
        return statuses(group) == {Status.TERMINATING}

    wait_until(all_have)


@pytest.mark.django_db(transaction=True)
def test_sessions_live_their_whole_life_on_simulated_machines(cluster: ResourceGroup) -> None:
    submit(cluster, 4)
    for session_id in run_tick(cluster.pk):
        launcher.launch_session(session_id)
    assert statuses(cluster) == {Status.RUNNING}

    see_all_exit(cluster)
    for session_id in ComputeSession.objects.values_list("pk", flat=True):
        terminator.end_session(session_id)

    assert statuses(cluster) == {Status.TERMINATED}
    assert not KernelAllocation.objects.exists()
    assert not AgentSlot.objects.exclude(occupied=0).exists()
    assert not client().keys(f"berth:simulated:{settings.BERTH_INSTALLATION}:*")
    assert set(ComputeSession.objects.values_list("status_reason", "exit_code")) == {
        (Reason.COMMAND_FINISHED.value, 0)
    }


@pytest.mark.django_db(transaction=True)
def test_a_cache_that_is_cleared_meanwhile_takes_no_container_away(cluster: ResourceGroup) -> None:
    """What engines have lies in the same Redis, and so does what other installations keep there."""
    submit(cluster, 2)
    for session_id in run_tick(cluster.pk):
        launcher.launch_session(session_id)

    cache.clear()

    def none_runs() -> bool:
        loop.reconcile_sessions()
        return not ComputeSession.objects.filter(status=Status.RUNNING.value).exists()

    wait_until(none_runs)
    assert set(ComputeSession.objects.values_list("status", "status_reason")) == {
        (Status.TERMINATING.value, Reason.COMMAND_FINISHED.value)
    }


def test_much_work_is_asked_for_in_arrays_and_little_one_by_one() -> None:
    assert simulated_cluster.arrays(3) == [1, 1, 1]
    assert simulated_cluster.arrays(0) == []
    assert simulated_cluster.arrays(45) == [4] * 11 + [1]
    assert simulated_cluster.arrays(5000) == [100] * 50


@pytest.mark.django_db(transaction=True)
def test_a_simulated_load_submits_as_many_as_it_says(cluster: ResourceGroup) -> None:
    people = simulated_cluster.simulated_people(cluster)
    tally = next(simulated_cluster.submit(people, per_s=45, seconds=0, most_waiting=100, has_gpus=False))

    assert (tally.submitted, tally.refused) == (45, 0)
    names = list(ComputeSession.objects.waiting().values_list("name", flat=True))
    assert len(set(names)) == 45


@pytest.mark.django_db(transaction=True)
def test_heartbeats_of_machines_without_news_are_one_statement(
    cluster: ResourceGroup, django_assert_max_num_queries: Any
) -> None:
    seen_at = Agent.objects.order_by("heartbeat_at").first().heartbeat_at
    with django_assert_max_num_queries(6):
        heartbeat_agents()
    assert not Agent.objects.filter(heartbeat_at__lte=seen_at).exists()
    assert set(Agent.objects.values_list("state", flat=True)) == {AgentState.CONNECTED.value}
    assert set(AgentSlot.objects.filter(slot_name="gpu").values_list("capacity", flat=True)) == {8000}


def test_clearing_removes_all_that_was_simulated_and_nothing_else() -> None:
    place = make_place()
    mine = place.run()
    before = {
        model: model.objects.count()
        for model in (User, Domain, Agent, ResourceGroup, ComputeSession, LimitUse)
    }
    group = simulated_cluster.make_cluster(count=3, shape=MachineShape(behaviour=SHORT))
    submit(group, 5)
    for session_id in run_tick(group.pk)[:2]:
        launcher.launch_session(session_id)

    cleared = simulated_cluster.clear()

    assert (cleared.agents, cleared.sessions, cleared.retired) == (3, 5, 0)
    assert {model: model.objects.count() for model in before} == before
    assert place.fresh(mine).status == Status.RUNNING
    assert not client().keys(f"berth:simulated:{settings.BERTH_INSTALLATION}:*")
    assert not AuditEntry.objects.filter(actor_label__endswith=simulated_cluster.OURS).exists()
    assert simulated_cluster.clear() == simulated_cluster.Cleared(0, 0, 0)


def test_clearing_holds_sessions_before_what_they_hold() -> None:
    make_place()
    group = simulated_cluster.make_cluster(count=1, shape=MachineShape())
    submit(group, 2)
    run_tick(group.pk)
    with CaptureQueriesContext(connection) as asked:
        simulated_cluster.clear()
    held = next(
        n for n, each in enumerate(asked) if "FOR UPDATE" in each["sql"] and "computesession" in each["sql"]
    )
    given_back = next(
        n
        for n, each in enumerate(asked)
        if each["sql"].startswith('DELETE FROM "sessions_app_kernelallocation"')
    )
    assert held < given_back


def test_sessions_that_others_wait_for_are_cleared_too() -> None:
    place = make_place()
    group = simulated_cluster.make_cluster(count=1, shape=MachineShape())
    before = submit(group, 1)[0]
    actor = simulated_cluster.actor_of(before.owner)
    request = next(simulated_cluster.workload(simulated_cluster.simulated_people(group), seed=2))[1]
    request = replace(request, project=before.project.name, dependencies=(DependencyRequest(str(before.pk)),))
    enqueue_session(actor=actor, request=request)
    mine = place.enqueue()
    SessionDependency.objects.create(session=mine, after=before, when="any")
    ComputeSession.objects.filter(pk=mine.pk).update(held_for=Hold.DEPENDENCY.value)

    assert simulated_cluster.clear().sessions == 2

    dependents.settle_all_dependents()
    assert place.fresh(mine).held_for == Hold.NOTHING.value


def test_arrays_are_cleared_too() -> None:
    place = make_place()
    group = simulated_cluster.make_cluster(count=1, shape=MachineShape())
    submit_array(group, "1-3%1")
    mine = place.enqueue()
    SessionDependency.objects.create(session=mine, after_array=SessionArray.objects.get(), when="any")
    ComputeSession.objects.filter(pk=mine.pk).update(held_for=Hold.DEPENDENCY.value)
    assert simulated_cluster.clear().sessions == 3
    assert not SessionArray.objects.exists()

    dependents.settle_all_dependents()
    assert place.fresh(mine).held_for == Hold.NOTHING.value


def test_an_empty_group_of_others_is_neither_used_nor_removed() -> None:
    make_place()
    create_resource_group(actor=SYSTEM, name="planned")
    with pytest.raises(simulated_cluster.Unsafe, match="real machines"):
        simulated_cluster.make_cluster(count=1, shape=MachineShape(), group_name="planned")
    simulated_cluster.clear()
    assert ResourceGroup.objects.filter(name="planned", is_active=True).exists()


def test_a_session_of_a_real_person_in_the_group_is_ended_and_kept() -> None:
    place = make_place()
    group = simulated_cluster.make_cluster(count=2, shape=MachineShape())
    mine = place.enqueue(resource_group=group.name)
    [session_id] = run_tick(group.pk)
    launcher.launch_session(session_id)

    assert simulated_cluster.clear() == simulated_cluster.Cleared(1, 1, 0)
    assert place.fresh(mine).status == Status.TERMINATING
    terminator.end_session(mine.pk)
    assert place.fresh(mine).status == Status.TERMINATED
    assert not ResourceGroup.objects.get(pk=group.pk).is_active


def test_nobody_gets_a_simulated_machine_without_choosing_its_group(cluster: ResourceGroup) -> None:
    assert not cluster.is_default
    ResourceGroup.objects.filter(is_default=True).update(is_default=False)
    with pytest.raises(CommandError, match="default"):
        call_command("simulated_cluster", "simulate", "--agents", "1", "--keep")


def test_a_group_with_real_machines_is_left_alone() -> None:
    place = make_place()
    Agent.objects.update(address="unix:///var/run/docker.sock")
    ResourceGroup.objects.update(is_default=True)
    with pytest.raises(CommandError, match="real machines"):
        call_command("simulated_cluster", "simulate", "--agents", "1", "--keep", "--group", place.group.name)


@pytest.mark.parametrize(
    "wrong", [("--agents", "0"), ("--agents", "x"), ("--fail-rate", "2"), ("--load", "-1")]
)
def test_numbers_that_make_no_sense_are_refused(wrong: tuple[str, str]) -> None:
    with pytest.raises(CommandError):
        call_command("simulated_cluster", "simulate", *wrong)


def test_a_lost_machine_is_silent_and_comes_back() -> None:
    behaviour = Behaviour(lose_rate=0.5)
    now = clock.now().timestamp()
    at = [behaviour.is_silent("one", now + 600 * number) for number in range(50)]
    assert any(at)
    assert not all(at)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("last", [b"second", b""])
def test_the_log_of_the_last_attempt_is_kept(last: bytes) -> None:
    create_resource_group(actor=SYSTEM, name="default", is_default=True)
    cluster = simulated_cluster.make_cluster(count=1, shape=MachineShape())
    try:
        [session] = submit(cluster, 1)
        ComputeSession.objects.filter(pk=session.pk).update(max_retries=1)
        for output in (b"first", last):
            run_tick(cluster.pk)
            launcher.launch_session(session.pk)
            _fail(session, output)
            terminator.end_session(session.pk)
        assert find_stored_log(session.kernels.get()).tail.text == last
    finally:
        simulated_cluster.clear()


def _fail(session: ComputeSession, output: bytes) -> None:
    kernel = session.kernels.get()
    runtime = runtime_of(kernel.placed_agent)
    assert isinstance(runtime, SimulatedRuntime)
    runtime.finish(kernel.container_name, exit_code=1, output=output)
    loop.reconcile_agents()


def test_what_somebody_else_takes_off_a_shelf_at_the_same_moment_is_gone_and_no_fault(
    cluster: ResourceGroup,
) -> None:
    def taken_by_another(told: dict[str, str]) -> dict[str, str]:
        client().hdel(state.key, "volume")
        return told

    state = RedisMapping[Any]("berth:simulated:taken", dict, taken_by_another)
    state["volume"] = {}
    assert state.pop("volume", None) is None
    assert state.pop("volume", None) is None
    with pytest.raises(KeyError):
        state.pop("volume")
    state["volume"] = {"of": "one"}
    assert RedisMapping[Any](state.key, dict, dict).pop("volume") == {"of": "one"}
    assert not state
