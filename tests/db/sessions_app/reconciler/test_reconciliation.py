"""The reconciler makes engines and rows agree, wherever a worker was killed."""

from datetime import timedelta
from threading import Barrier

import pytest

from agents.core.states import AgentState
from agents.machines import lifecycle as agent_lifecycle
from agents.runtime.port import ContainerSpec, NetworkSpec, RuntimeUnavailable
from agents.runtime.simulated.runtime import SimulatedRuntime
from common import clock
from common.actors import SYSTEM
from sessions_app.container_io.kept_logs import find_stored_log
from sessions_app.core import container_spec
from sessions_app.core.states import Reason, Status
from sessions_app.launch.launcher import build_kernel_plan, launch_session
from sessions_app.launch.terminator import STOP_GRACE_S, end_session, lost_grace
from sessions_app.models import ComputeSession, KernelAllocation
from sessions_app.reconciler import garbage, loop
from sessions_app.termination.service import terminate_session
from tests import factories
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db(transaction=True)


class DyingRuntime(SimulatedRuntime):
    """The worker dies at the n-th call that changes something: the call may have been done or not."""

    def __init__(self, *, name: str, images: tuple[str, ...] = ()) -> None:
        super().__init__(name=name, images=images)
        self.calls_left = -1
        self.dies_after = True


class WorkerKilled(BaseException):
    """Like SIGKILL, as far as Python can: nothing between here and the top handles it."""


CHANGING_CALLS = (
    "ensure_network", "ensure_volume", "ensure_container", "start_container", "start_process",
    "stop_container", "remove_container", "remove_volume", "remove_network",
)  # fmt: skip


def _dying(name: str):  # type: ignore[no-untyped-def]
    def call(self: DyingRuntime, *args: object, **kwargs: object) -> object:
        self.calls_left -= 1
        if self.calls_left == 0 and not self.dies_after:
            raise WorkerKilled
        answer = getattr(SimulatedRuntime, name)(self, *args, **kwargs)
        if self.calls_left == 0:
            raise WorkerKilled
        return answer

    return call


for _name in CHANGING_CALLS:
    setattr(DyingRuntime, _name, _dying(_name))


@pytest.mark.parametrize("dies_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("nth", range(1, 6))
def test_launch_that_was_killed_at_any_call_goes_on_in_the_next_run(
    place: Place, nth: int, dies_after: bool
) -> None:
    runtime = place.replace_runtime(lambda images: DyingRuntime(name=place.agent.name, images=images))
    session = place.place()
    runtime.calls_left, runtime.dies_after = nth, dies_after

    with pytest.raises(WorkerKilled):
        launch_session(session.pk)
    launch_session(session.pk)

    assert place.fresh(session).status == Status.RUNNING
    assert len(runtime.list_containers({})) == 1
    assert len(runtime.list_networks({})) == 1


@pytest.mark.parametrize("dies_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("nth", range(1, 5))
def test_end_that_was_killed_at_any_call_goes_on_in_the_next_run(
    place: Place, nth: int, dies_after: bool
) -> None:
    runtime = place.replace_runtime(lambda images: DyingRuntime(name=place.agent.name, images=images))
    session = place.run(type="batch", command="true")
    terminate_session(actor=factories.actor_for(place.owner), session_id=session.pk)
    runtime.calls_left, runtime.dies_after = nth, dies_after

    with pytest.raises(WorkerKilled):
        end_session(session.pk)
    end_session(session.pk)

    assert place.fresh(session).status == Status.TERMINATED
    assert place.occupied() == {}
    assert runtime.list_containers({}) == runtime.list_networks({}) == runtime.list_volumes({}) == []


def finish_batch(place: Place, *, exit_code: int = 0, **how: object) -> ComputeSession:
    session = place.run(type="batch", command="make all")
    place.runtime.finish(session.kernels.get().container_name, exit_code=exit_code, **how)  # type: ignore[arg-type]
    loop.reconcile_sessions()
    end_session(session.pk)
    return place.fresh(session)


def test_batch_session_ends_with_its_exit_code_and_keeps_its_log(place: Place) -> None:
    session = finish_batch(place, output=b"built\n")
    assert (session.status, session.status_reason, session.exit_code) == ("TERMINATED", "command_finished", 0)
    assert find_stored_log(session.kernels.get()).tail.text == b"built\n"


def test_batch_session_that_failed_says_so(place: Place) -> None:
    session = finish_batch(place, exit_code=3)
    assert (session.status, session.status_reason, session.exit_code) == ("TERMINATED", "command_failed", 3)


def test_session_killed_for_memory_says_so(place: Place) -> None:
    session = finish_batch(place, exit_code=137, was_oom_killed=True)
    assert (session.status, session.status_reason) == ("ERROR", "out_of_memory")


def test_externally_removed_container_ends_its_session(place: Place) -> None:
    session = place.run()
    place.runtime.remove_container(session.kernels.get().container_name)
    loop.reconcile_sessions()
    end_session(session.pk)
    assert place.fresh(session).status_reason == Reason.CONTAINER_LOST


def test_container_without_a_live_session_is_reaped(place: Place) -> None:
    session = place.run()
    spec: ContainerSpec = container_spec.build_container_spec(
        build_kernel_plan(session, session.kernels.get())
    )
    network = container_spec.build_network_spec(build_kernel_plan(session, session.kernels.get()))
    ended = place.end(session)
    place.runtime.ensure_network(network)
    place.runtime.ensure_volume(container_spec.home_volume_name(session.kernels.get().pk), spec.labels)
    place.runtime.ensure_container(spec)

    loop.reconcile_sessions()

    assert place.runtime.list_containers({}) == place.runtime.list_networks({}) == []
    assert place.fresh(ended).status == Status.TERMINATED


def leave_running(place: Place, count: int) -> list[str]:
    """Names of containers that run on though their sessions have ended."""
    sessions = [place.run() for _ in range(count)]
    left = [
        container_spec.build_container_spec(build_kernel_plan(each, each.kernels.get())) for each in sessions
    ]
    for session, spec in zip(sessions, left, strict=True):
        place.end(session)
        place.runtime.ensure_network(NetworkSpec(spec.network, {}))
        place.runtime.ensure_container(spec)
        place.runtime.start_container(spec.name)
    return [spec.name for spec in left]


def test_programs_of_ended_sessions_are_signalled_together_before_removal(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They ran on while their machine was lost."""
    left = leave_running(place, 2)
    both, told = Barrier(2, timeout=20), []

    def stop_container(name: str, grace_s: int) -> None:
        both.wait()
        told.append((name, place.runtime.inspect_container(name) is not None, grace_s))

    monkeypatch.setattr(place.runtime, "stop_container", stop_container)
    loop.reconcile_sessions()

    assert sorted(told) == sorted((name, True, STOP_GRACE_S) for name in left)
    assert place.runtime.list_containers({}) == []


def test_a_round_stops_no_more_containers_of_ended_sessions_than_take_one_grace(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "STOPPERS", 2)
    told: list[str] = []
    left = leave_running(place, 3)
    monkeypatch.setattr(place.runtime, "stop_container", lambda name, grace_s: told.append(name))

    loop.reconcile_sessions()
    assert sorted(told) == sorted(left)[:2]
    assert [state.name for state in place.runtime.list_containers({})] == sorted(left)[2:]
    loop.reconcile_sessions()
    assert sorted(told) == sorted(left)
    assert place.runtime.list_containers({}) == []


def test_container_that_the_database_never_knew_is_left_alone(place: Place) -> None:
    session = place.run()
    container = session.kernels.get().container_name
    KernelAllocation.objects.filter(kernel__session=session).delete()
    session.delete()

    loop.reconcile_sessions()
    garbage.reap_leftovers(place.agent, place.runtime)

    assert [state.name for state in place.runtime.list_containers({})] == [container]
    assert len(place.runtime.list_networks({})) == len(place.runtime.list_volumes({})) == 1


def test_container_of_another_installation_is_left_alone(place: Place) -> None:
    session = place.run()
    spec = container_spec.build_container_spec(build_kernel_plan(session, session.kernels.get()))
    place.end(session)
    foreign = {**spec.labels, container_spec.INSTALLATION_LABEL: "another"}
    place.runtime.ensure_network(
        container_spec.build_network_spec(build_kernel_plan(session, session.kernels.get()))
    )
    place.runtime.ensure_volume(container_spec.home_volume_name(session.kernels.get().pk), foreign)
    place.runtime.ensure_container(
        ContainerSpec(
            name="foreign", image=place.image.reference, labels=foreign, cpu_milli=10, mem_bytes=2**25
        )
    )
    loop.reconcile_sessions()
    assert [state.name for state in place.runtime.list_containers({})] == ["foreign"]


def test_batch_session_past_its_time_limit_is_stopped(place: Place) -> None:
    session = place.run(type="batch", command="sleep 1d", timeout_s=60)
    with clock.frozen_at(clock.now() + timedelta(seconds=61)):
        loop.enforce_deadlines(clock.now())
    end_session(session.pk)
    assert place.fresh(session).status_reason == Reason.COMMAND_TIMED_OUT


def test_a_time_limit_of_its_own_ends_no_command_where_there_is_none(place: Place) -> None:
    session = place.run(timeout_s=60)
    with clock.frozen_at(clock.now() + timedelta(seconds=61)):
        loop.enforce_deadlines(clock.now())
    end_session(session.pk)
    ended = place.fresh(session)
    assert (ended.status, ended.status_reason) == (Status.TERMINATED, Reason.COMMAND_TIMED_OUT)
    assert str(ended.status_message) == "It reached its time limit."


def test_session_stuck_in_any_stage_ends_with_a_reason(place: Place) -> None:
    scheduled, waiting = place.place(), place.enqueue(resources={"cpu": 8, "mem": "1g"})
    with clock.frozen_at(clock.now() + timedelta(days=40)):
        loop.enforce_deadlines(clock.now())
    end_session(scheduled.pk)
    assert place.fresh(scheduled).status_reason == Reason.DEADLINE_PASSED
    assert (place.fresh(waiting).status, place.occupied()) == (Status.ERROR, {})


def test_sessions_of_a_lost_agent_end_after_the_grace_and_release_resources(place: Place) -> None:
    session = place.run()
    agent_lifecycle.transition(place.agent.pk, to=AgentState.LOST, actor=SYSTEM)

    loop.end_sessions_of_lost_agents(clock.now())
    assert place.fresh(session).status == Status.RUNNING

    with clock.frozen_at(clock.now() + lost_grace() + timedelta(seconds=1)):
        loop.end_sessions_of_lost_agents(clock.now())
    assert (place.fresh(session).status, place.fresh(session).status_reason) == ("ERROR", "agent_lost")
    assert place.occupied() == {}


def test_sessions_of_a_retired_agent_end_and_say_so(place: Place) -> None:
    session = place.run()
    agent_lifecycle.transition(place.agent.pk, to=AgentState.RETIRED, actor=SYSTEM)

    loop.end_sessions_of_retired_agents()
    end_session(session.pk)

    ended = place.fresh(session)
    assert (ended.status, str(ended.status_message)) == (Status.ERROR, "The machine is no longer used.")
    assert place.occupied() == {}
    assert place.runtime.list_containers({}) == []


def test_machine_that_fails_does_not_keep_the_others_from_being_looked_at(place: Place) -> None:
    class Failing(SimulatedRuntime):
        def list_containers(self, labels):  # type: ignore[no-untyped-def]
            raise RuntimeUnavailable("no answer")

    other = make_place()
    place.replace_runtime(lambda images: Failing(images=images))
    session = other.run(type="batch", command="true")
    other.runtime.finish(session.kernels.get().container_name)
    loop.reconcile_sessions()
    assert other.fresh(session).status == Status.TERMINATING
