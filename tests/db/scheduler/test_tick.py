"""One tick against PostgreSQL: the rows that it reads, writes and leaves alone."""

import pytest
from django.db import IntegrityError, transaction
from django.db.models import Sum

from agents.core.states import AgentState
from agents.machines import lifecycle as agents_lifecycle
from agents.models import Agent, AgentSlot
from common import clock
from common.actors import SYSTEM
from common.messaging.dispatch import TaskName
from scheduler import tasks, triggers
from scheduler.commit import plan_commit
from scheduler.commit.plan_commit import StalePlan, commit_plan
from scheduler.engine import Plan, plan
from scheduler.snapshot.reader import groups_with_pending_sessions, read_snapshot
from scheduler.tick import run_tick
from sessions_app.core.states import Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession, KernelAllocation
from tests.factories_scheduler import Cluster, make_cluster

pytestmark = pytest.mark.django_db
GIB = 2**30
SMALL = {"cpu": 1000, "mem": GIB}


@pytest.fixture
def cluster(db: None) -> Cluster:
    return make_cluster()


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the sessions for which a launch was asked."""
    sent: list[str] = []

    def note(name: TaskName, *, session_id: str) -> None:
        assert name is TaskName.LAUNCH_SESSION
        sent.append(session_id)

    monkeypatch.setattr(plan_commit, "enqueue_on_commit", note)
    return sent


def plan_now(cluster: Cluster) -> Plan:
    return plan(read_snapshot(cluster.group.pk), clock.now())


def fresh(session: ComputeSession) -> ComputeSession:
    return ComputeSession.objects.get(pk=session.pk)


def held(agent: Agent) -> dict[str, int]:
    """What the agent's ledger says is occupied; the allocation rows must say the same."""
    occupied = dict(
        AgentSlot.objects.filter(agent=agent, occupied__gt=0).values_list("slot_name", "occupied")
    )
    rows = KernelAllocation.objects.filter(agent=agent).values_list("slot_name").annotate(Sum("amount"))
    assert dict(rows.order_by("slot_name")) == occupied
    return occupied


def drain(agent: Agent) -> None:
    agents_lifecycle.transition(agent.pk, to=AgentState.DRAINING, actor=SYSTEM)


def test_a_tick_gives_a_waiting_session_its_agent_and_asks_for_its_launch(cluster, launched):
    agent = cluster.add_agent({"cpu": 4000, "mem": 8 * GIB})
    session = cluster.add_pending(SMALL)

    assert run_tick(cluster.group.pk) == [session.pk]

    session = fresh(session)
    assert (session.status, session.status_reason) == (Status.SCHEDULED, Reason.PLACED)
    assert session.queue_position is None
    assert session.kernels.get().agent == agent
    assert held(agent) == SMALL
    assert launched == [str(session.pk)]


def test_a_second_tick_finds_nothing_to_do(cluster, launched):
    agent = cluster.add_agent({"cpu": 4000, "mem": 8 * GIB})
    cluster.add_pending(SMALL)
    run_tick(cluster.group.pk)
    assert run_tick(cluster.group.pk) == []
    assert held(agent) == SMALL
    assert len(launched) == 1


def test_a_gang_is_placed_whole(cluster):
    agents = [cluster.add_agent(SMALL) for _ in range(3)]
    session = cluster.add_pending(SMALL, kernels=3)
    run_tick(cluster.group.pk)
    assert {kernel.agent_id for kernel in session.kernels.all()} == {agent.pk for agent in agents}


def test_gang_without_capacity_for_all_holds_nothing(cluster):
    agents = [cluster.add_agent(SMALL) for _ in range(2)]
    session = cluster.add_pending(SMALL, kernels=3)
    assert run_tick(cluster.group.pk) == []
    assert fresh(session).status_reason == "never_fits"
    assert [held(agent) for agent in agents] == [{}, {}]


def test_waiting_sessions_learn_their_position_and_why(cluster):
    cluster.add_agent(SMALL)
    cluster.add_pending(SMALL, age_s=30)
    older, younger = cluster.add_pending(SMALL, age_s=20), cluster.add_pending(SMALL, age_s=10)

    run_tick(cluster.group.pk)

    assert [(fresh(each).queue_position, fresh(each).status_reason) for each in (older, younger)] == [
        (1, "no_capacity"),
        (2, "no_capacity"),
    ]
    assert fresh(older).status == Status.PENDING
    assert str(fresh(older).status_message) == (
        f"Waits for 1 core, 1 GiB: the agent of resource group “{cluster.group.name}” with the most room has"
        " 0 cores, 0 B free."
    )


def test_released_capacity_lets_the_next_session_start(cluster):
    agent = cluster.add_agent(SMALL)
    first, second = cluster.add_pending(SMALL, age_s=10), cluster.add_pending(SMALL)
    run_tick(cluster.group.pk)
    transitions.transition(first.pk, to=Status.TERMINATING, reason=Reason.USER_REQUESTED, actor=SYSTEM)
    assert run_tick(cluster.group.pk) == []

    transitions.finish(first.pk, actor=SYSTEM)
    assert held(agent) == {}
    assert run_tick(cluster.group.pk) == [second.pk]


@pytest.mark.parametrize("state", [state for state in AgentState if state is not AgentState.CONNECTED])
def test_only_connected_agents_get_sessions(cluster, state):
    cluster.add_agent(SMALL, state=state)
    session = cluster.add_pending(SMALL)
    assert run_tick(cluster.group.pk) == []
    assert fresh(session).status_reason == "no_agents"


def test_agents_of_another_group_are_left_alone(cluster):
    make_cluster().add_agent(SMALL)
    cluster.add_pending(SMALL)
    assert run_tick(cluster.group.pk) == []


def test_the_strategy_of_the_group_decides_where(cluster):
    empty, half = cluster.add_agent({"cpu": 4000, "mem": 4 * GIB}), cluster.add_agent(SMALL)
    cluster.group.strategy = "dispersed"
    cluster.group.save(update_fields=["strategy"])
    cluster.add_pending(SMALL)
    run_tick(cluster.group.pk)
    assert (held(empty), held(half)) == (SMALL, {})


def test_turns_go_on_from_tick_to_tick(cluster):
    type(cluster.group).objects.update(strategy="round_robin")
    agents = [cluster.add_agent({"cpu": 4000, "mem": 4 * GIB}) for _ in range(3)]
    for _ in range(4):
        cluster.add_pending(SMALL)
        run_tick(cluster.group.pk)
    assert [held(agent)["cpu"] // SMALL["cpu"] for agent in agents] == [2, 1, 1]


def test_a_session_cancelled_after_the_snapshot_drops_out_alone(cluster, launched):
    agent = cluster.add_agent({"cpu": 4000, "mem": 8 * GIB})
    cancelled, other = cluster.add_pending(SMALL), cluster.add_pending(SMALL)
    decided = plan_now(cluster)
    transitions.transition(cancelled.pk, to=Status.CANCELLED, reason=Reason.USER_REQUESTED, actor=SYSTEM)

    assert commit_plan(decided) == [other.pk]
    assert held(agent) == SMALL
    assert launched == [str(other.pk)]


def test_cancelled_session_gets_no_pending_reason(cluster):
    session = cluster.add_pending(SMALL)
    decided = plan_now(cluster)
    transitions.transition(session.pk, to=Status.CANCELLED, reason=Reason.USER_REQUESTED, actor=SYSTEM)
    commit_plan(decided)
    assert fresh(session).status_reason == Reason.USER_REQUESTED


def test_a_plan_older_than_the_last_commit_is_stale(cluster, launched):
    cluster.add_agent({"cpu": 4000, "mem": 8 * GIB})
    cluster.add_pending(SMALL)
    decided = plan_now(cluster)
    commit_plan(decided)
    with pytest.raises(StalePlan, match="newer plan"):
        commit_plan(decided)
    assert len(launched) == 1


@pytest.mark.parametrize(
    "change",
    [
        drain,
        lambda agent: AgentSlot.objects.filter(agent=agent, slot_name="mem").update(capacity=GIB // 2),
        lambda agent: AgentSlot.objects.filter(agent=agent, slot_name="cpu").delete(),
    ],
    ids=["draining", "smaller", "slot gone"],
)
def test_an_agent_that_changed_after_the_snapshot_makes_the_plan_stale(cluster, launched, change):
    agent = cluster.add_agent(SMALL)
    session = cluster.add_pending(SMALL)
    decided = plan_now(cluster)
    change(agent)

    with pytest.raises(StalePlan, match="no room"):
        commit_plan(decided)

    assert fresh(session).status == Status.PENDING
    assert held(agent) == {}
    assert launched == []
    assert read_snapshot(cluster.group.pk).epoch == decided.epoch


def test_a_stale_plan_is_made_again_from_a_new_snapshot(cluster, monkeypatch):
    """An agent drains after the first snapshot; the same tick finds the other one."""
    drained, other = cluster.add_agent(SMALL), cluster.add_agent({"cpu": 4000, "mem": 8 * GIB})
    session = cluster.add_pending(SMALL)

    def drain_then_commit(decided: Plan) -> list:
        drain(drained)
        return commit_plan(decided)

    monkeypatch.setattr("scheduler.tick.commit_plan", drain_then_commit)
    assert run_tick(cluster.group.pk) == [session.pk]
    assert (held(drained), held(other)) == ({}, SMALL)


def test_a_group_that_changes_all_the_time_is_left_to_a_later_tick(cluster, monkeypatch):
    cluster.add_pending(SMALL)
    seen = []

    def overtaken(decided: Plan) -> list:
        seen.append(decided)
        raise StalePlan("Overtaken.")

    monkeypatch.setattr("scheduler.tick.commit_plan", overtaken)
    with pytest.raises(StalePlan):
        run_tick(cluster.group.pk)
    assert len(seen) == 3


class PowerCut(Exception):
    """The process ends here."""


@pytest.mark.parametrize(
    "step",
    [
        "_lock_agents",
        "_check_capacity",
        "_cpusets",
        "_allocate",
        "transitions.transition_many",
        "write_pending_reasons",
        "enqueue_on_commit",
    ],
)
def test_a_crash_anywhere_in_the_commit_leaves_nothing_and_the_next_tick_does_the_work(
    cluster, monkeypatch, step
):
    agent = cluster.add_agent(SMALL)
    session = cluster.add_pending(SMALL)

    def cut(*args: object, **kwargs: object) -> None:
        raise PowerCut

    with monkeypatch.context() as broken:
        broken.setattr(f"scheduler.commit.plan_commit.{step}", cut)
        with pytest.raises(PowerCut):
            run_tick(cluster.group.pk)
    assert fresh(session).status == Status.PENDING
    assert held(agent) == {}

    assert run_tick(cluster.group.pk) == [session.pk]
    assert held(agent) == SMALL


def test_the_database_itself_refuses_more_than_an_agent_has(cluster):
    agent = cluster.add_agent(SMALL)
    kernel = cluster.add_pending(SMALL).kernels.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        KernelAllocation.objects.create(kernel=kernel, agent=agent, slot_name="cpu", amount=1001)
    assert held(agent) == {}


def test_a_plan_that_the_database_refuses_is_stale_and_writes_nothing(cluster, monkeypatch, launched):
    """The backstop: even a commit that forgets to look under lock cannot over-allocate."""
    agent = cluster.add_agent(SMALL)
    session = cluster.add_pending(SMALL)
    decided = plan_now(cluster)
    AgentSlot.objects.filter(agent=agent).update(capacity=1)
    monkeypatch.setattr(plan_commit, "_check_capacity", lambda kernels, rooms: {agent.pk: 0})

    with pytest.raises(StalePlan, match="refused"):
        commit_plan(decided)
    assert fresh(session).status == Status.PENDING
    assert held(agent) == {}


def test_a_snapshot_is_six_queries_however_many_rows(cluster, django_assert_num_queries):
    for _ in range(3):
        cluster.add_agent({"cpu": 4000, "mem": 8 * GIB})
        cluster.add_pending(SMALL, kernels=2)
    with django_assert_num_queries(6):
        snapshot = read_snapshot(cluster.group.pk)
    assert (len(snapshot.agents), len(snapshot.pending)) == (3, 3)
    assert all(len(session.kernel_ids) == 2 for session in snapshot.pending)
    assert len({id(session.requirements) for session in snapshot.pending}) == 1


@pytest.fixture
def requested_ticks(monkeypatch: pytest.MonkeyPatch, empty_redis: None) -> list[int]:
    """Groups of which a tick was sent to the workers."""
    sent: list[int] = []
    monkeypatch.setattr(
        triggers, "enqueue_on_commit", lambda name, *, resource_group_id: sent.append(resource_group_id)
    )
    return sent


def test_the_timer_asks_for_a_tick_of_each_group_in_which_something_waits(cluster, requested_ticks):
    other = make_cluster()
    for each in (cluster, cluster, other):
        each.add_pending(SMALL)
    make_cluster().add_agent(SMALL)
    assert groups_with_pending_sessions() == [cluster.group.pk, other.group.pk]
    tasks.tick()
    assert requested_ticks == [cluster.group.pk, other.group.pk]


def test_a_session_that_ends_asks_for_a_tick_of_its_group(
    cluster, requested_ticks, django_capture_on_commit_callbacks
):
    cluster.add_agent(SMALL)
    session = cluster.add_pending(SMALL)
    run_tick(cluster.group.pk)
    transitions.transition(session.pk, to=Status.TERMINATING, reason=Reason.USER_REQUESTED, actor=SYSTEM)
    with django_capture_on_commit_callbacks(execute=True):
        transitions.finish(session.pk, actor=SYSTEM)
    assert requested_ticks == [cluster.group.pk]


def test_the_timer_alone_is_right(cluster, empty_redis, monkeypatch):
    """No event arrives; the workers are this process."""
    monkeypatch.setattr(triggers, "enqueue_on_commit", lambda name, **arguments: tasks.tick(**arguments))
    cluster.add_agent(SMALL)
    session = cluster.add_pending(SMALL)
    tasks.tick()
    assert fresh(session).status == Status.SCHEDULED


def test_sessions_get_cores_apart_from_each_other(cluster):
    agent = cluster.add_agent({"cpu": 4000, "mem": 8 * GIB})
    Agent.objects.filter(pk=agent.pk).update(data={"cores": 4})
    first = cluster.add_pending({"cpu": 2000, "mem": GIB})
    commit_plan(plan_now(cluster))
    second, third = (cluster.add_pending({"cpu": cpu, "mem": GIB}) for cpu in (1000, 500))
    commit_plan(plan_now(cluster))

    assert [each.kernels.get().cpuset for each in (first, second, third)] == ["0-1", "2", "3"]


def test_session_on_a_machine_of_unknown_cores_has_all_of_them(cluster):
    cluster.add_agent(SMALL)
    session = cluster.add_pending(SMALL)
    commit_plan(plan_now(cluster))
    assert session.kernels.get().cpuset == ""
