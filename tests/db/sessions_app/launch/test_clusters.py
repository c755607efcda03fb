"""Sessions of several containers: placed, started and ended together, counted in full."""

import json
from datetime import timedelta

import pytest

from agents.core.states import AgentState
from agents.machines import lifecycle as agent_lifecycle
from agents.machines import service as agent_services
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from common import clock
from common.actors import SYSTEM
from common.errors import LimitExceeded
from scheduler.tick import run_tick
from sessions_app.core.request import parse_request
from sessions_app.core.states import Reason, Status
from sessions_app.launch.launcher import launch_session
from sessions_app.launch.terminator import end_session
from sessions_app.models import ComputeSession, Kernel
from sessions_app.reconciler import loop
from sessions_app.session_templates.quick_start import session_request_body
from tests.factories_limits import limit, use_of
from tests.factories_sessions import Place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]

BATCH = {"type": "batch", "command": "train"}
WORKERS = {"name": "worker", "count": 2, "resources": {"cpu": 2, "mem": "2g"}, "command": "work"}


def kernels_of(session: ComputeSession) -> dict[str, Kernel]:
    return {kernel.name: kernel for kernel in session.kernels.select_related("agent", "session")}


def add_machine(place: Place) -> SimulatedRuntime:
    name = f"{place.agent.name}-b"
    runtime = SimulatedRuntime(
        name=name, cpu_milli=8000, mem_bytes=32 * 2**30, images=(place.image.reference,)
    )
    adopt_runtime(f"simulated://{name}", runtime)
    agent_services.register_agent(
        actor=SYSTEM, name=name, address=f"simulated://{name}", resource_group=place.group
    )
    return runtime


def test_containers_of_unlike_roles_run_with_their_own_names_sizes_and_commands(place: Place) -> None:
    session = place.run(**BATCH, roles=[WORKERS, {"name": "ps"}])
    assert session.status == Status.RUNNING
    assert (session.kernel_count, session.gang) == (4, "one_machine")
    assert list(kernels_of(session)) == ["main1", "worker1", "worker2", "ps1"]
    assert place.occupied() == {"cpu": 6000, "mem": 6 * 2**30}
    worker = kernels_of(session)["worker2"]
    spec = place.runtime.state.containers[worker.container_name].spec
    assert (spec.hostname, spec.aliases, spec.cpu_milli) == ("worker2", ("worker2",), 2000)
    assert spec.command is not None
    assert spec.command[-1] == "work"
    environment = spec.environment
    assert environment["BERTH_CLUSTER_HOSTS"] == "main1,worker1,worker2,ps1"
    assert environment["BERTH_CLUSTER_REPLICAS"] == "main:1,worker:2,ps:1"
    names = ("MASTER_ADDR", "WORLD_SIZE", "RANK", "LOCAL_RANK", "GLOO_SOCKET_IFNAME")
    assert [environment[name] for name in names] == ["main1", "4", "2", "0", "eth0"]
    networks = {
        place.runtime.state.containers[kernel.container_name].spec.network
        for kernel in kernels_of(session).values()
    }
    assert len(networks) == 1
    ended = place.end(session)
    assert ended.status == Status.TERMINATED
    assert place.occupied() == {}
    assert place.runtime.list_containers({}) == []


def test_all_containers_start_or_none(place: Place) -> None:
    place.run(resources={"cpu": 6, "mem": "1g"})
    session = place.place(cluster_size=3)
    assert session.status == Status.PENDING  # two of them would fit
    assert place.occupied()["cpu"] == 6000


def test_limits_count_all_containers(place: Place) -> None:
    limit(place.project, max_slots={"cpu": 2000})
    with pytest.raises(LimitExceeded):
        place.enqueue(cluster_size=3)
    place.enqueue(cluster_size=2)


def test_what_waits_counts_each_container_by_its_own_size(place: Place) -> None:
    limit(place.project, max_pending_slots={"cpu": 6000})
    sessions = [place.enqueue(**BATCH, roles=[WORKERS])]  # 1 + 2 * 2 cores
    with pytest.raises(LimitExceeded):
        place.enqueue(cluster_size=2)
    sessions.append(place.enqueue())
    for left in (1000, 0):
        place.end(sessions.pop(0))
        assert use_of(place.project).get("pending_slots.cpu", 0) == left


def test_more_containers_than_machines_are_refused_in_words(place: Place) -> None:
    with pytest.raises(LimitExceeded, match=r"Each of 2 containers needs a machine of its own, and .* has 1"):
        place.enqueue(cluster_size=2, cluster_mode="spread")
    with pytest.raises(LimitExceeded, match="can run 8 of these 9 containers"):
        place.enqueue(cluster_size=9, cluster_mode="anywhere")
    with pytest.raises(LimitExceeded, match=r"No machine of .* has 9 cores"):
        place.enqueue(cluster_size=9)


@pytest.mark.parametrize(
    ("role", "exit_code", "status"),
    [
        ({"name": "worker", "command": "work"}, 3, Status.TERMINATING),
        ({"name": "worker", "command": "work"}, 0, Status.RUNNING),
        ({"name": "worker"}, 0, Status.TERMINATING),
        ({"name": "worker", "command": "work", "failure_policy": "tolerate"}, 3, Status.RUNNING),
    ],
    ids=["strict", "done", "idle", "tolerated"],
)
def test_policy_of_a_role_says_what_the_end_of_its_container_means(
    place: Place, role: dict[str, object], exit_code: int, status: Status
) -> None:
    session = place.run(**BATCH, roles=[role])
    worker = kernels_of(session)["worker1"]
    place.runtime.finish(worker.container_name, exit_code=exit_code)
    loop.reconcile_agents()
    session, worker = place.fresh(session), kernels_of(session)["worker1"]
    assert session.status == status
    if status == Status.RUNNING:
        assert (worker.exit_code, worker.ended_at is not None) == (exit_code, True)
        place.runtime.finish(kernels_of(session)["main1"].container_name, exit_code=0)
        loop.reconcile_agents()
        end_session(session.pk)
        assert place.fresh(session).status_reason == Reason.COMMAND_FINISHED
    else:
        assert "worker1" in str(session.status_message)


def test_a_lost_machine_ends_its_session_and_the_containers_elsewhere_first(place: Place) -> None:
    other = add_machine(place)
    session = place.enqueue(cluster_size=2, cluster_mode="spread")
    run_tick(place.group.pk)
    launch_session(session.pk)
    lost = kernels_of(session)["sub1"].placed_agent
    assert {each.placed_agent.name for each in kernels_of(session).values()} == {
        place.agent.name, f"{place.agent.name}-b"
    }  # fmt: skip
    with clock.frozen_at(clock.now() - timedelta(hours=1)):
        agent_lifecycle.transition(lost.pk, to=AgentState.LOST, actor=SYSTEM)
    loop.end_sessions_of_lost_agents(clock.now())
    session = place.fresh(session)
    assert (session.status, session.outcome_reason) == (Status.TERMINATING, Reason.AGENT_LOST)
    end_session(session.pk)
    assert place.fresh(session).status == Status.ERROR
    engines = {place.agent.name: place.runtime, f"{place.agent.name}-b": other}
    assert {name: len(engine.list_containers({})) for name, engine in engines.items()} == {
        name: int(name == lost.name) for name in engines
    }


def test_request_can_be_read_back(place: Place) -> None:
    unlike = place.enqueue(**BATCH, roles=[WORKERS], cluster_mode="anywhere")
    assert json.loads(json.dumps(unlike.cluster_roles)) == [WORKERS]
    for session in (unlike, place.enqueue(cluster_size=2), place.enqueue()):
        copy = parse_request(session_request_body(session, name="copy"))
        assert (len(copy.container_slots), copy.total_slots) == (session.kernel_count, session.slots_of_all)
        assert copy.cluster_mode == session.gang or session.kernel_count == 1
