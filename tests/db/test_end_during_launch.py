"""What meets a launch that is under way: an end goes on when the launch lets go, and a round takes none of it for a fault."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any
from uuid import UUID

import pytest
from django.db import connections, transaction

from agents.groups import create_resource_group
from agents.models import ResourceGroup
from agents.runtime.simulated import SimulatedRuntime
from agents.selectors import runtime_of
from agents.simulation import Shape
from common import dispatch
from common.actors import SYSTEM
from common.dispatch import TaskName
from portal import simulation
from scheduler.tick import run_tick
from sessions_app import launcher, lifecycle, reconcile, tasks, together
from sessions_app.admission.service import enqueue_session
from sessions_app.models import ComputeSession
from sessions_app.services import begin_termination
from sessions_app.states import Reason, Status
from tests.factories_sessions import make_place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]

Sent = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    messages: Sent = []
    monkeypatch.setattr(
        dispatch.current_app, "send_task", lambda name, *, kwargs, **_: messages.append((name, kwargs))
    )
    return messages


@pytest.fixture
def cluster() -> Iterator[ResourceGroup]:
    create_resource_group(actor=SYSTEM, name="default", is_default=True)
    yield simulation.make_cluster(count=3, shape=Shape())
    simulation.clear()


def place_two(cluster: ResourceGroup) -> list[UUID]:
    asked = simulation.workload(simulation.people_of(cluster), seed=1)
    for _ in range(2):
        actor, request = next(asked)
        enqueue_session(actor=actor, request=request)
    return run_tick(cluster.pk)


def stop_as_another(session_id: UUID) -> None:
    """A person ends it, and the worker that hears of it finds somebody at work."""

    def stop() -> None:
        try:
            begin_termination(session_id, reason=Reason.USER_REQUESTED, actor=SYSTEM)
            tasks.terminate_session(str(session_id))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as another:
        another.submit(stop).result()
    assert ComputeSession.objects.get(pk=session_id).status == Status.TERMINATING


def before(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, act: Callable[[], None]) -> None:
    """`act`, once, when `name` of `owner` is called."""
    work, is_due = getattr(owner, name), [True]

    def work_after(*given: Any, **named: Any) -> Any:
        if is_due and is_due.pop():
            act()
        return work(*given, **named)

    monkeypatch.setattr(owner, name, work_after)


def hear_ends_of_launches(sent: Sent) -> None:
    """What the person sent was heard before, in vain."""
    for kwargs in [kwargs for name, kwargs in sent if name == TaskName.TERMINATE_SESSIONS.value]:
        sent.clear()
        tasks.terminate_sessions(**kwargs)
        for alone in [kwargs for name, kwargs in sent if name == TaskName.TERMINATE_SESSION.value]:
            tasks.terminate_session(**alone)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        pytest.param(SimulatedRuntime, "start_container", id="before-it-runs"),
        pytest.param(launcher, "start_own_apps", id="once-it-runs"),
    ],
)
def test_a_session_stopped_while_it_is_launched_ends_when_its_launch_does(
    sent: Sent, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    place = make_place()
    session = place.place()
    before(monkeypatch, owner, name, lambda: stop_as_another(session.pk))
    sent.clear()

    launcher.launch_session(session.pk)
    assert place.fresh(session).status == Status.TERMINATING
    hear_ends_of_launches(sent)
    assert place.fresh(session).status == Status.TERMINATED
    assert place.runtime.list_containers({}) == []


def test_those_of_many_that_are_stopped_while_they_are_launched_end_when_their_launch_does(
    cluster: ResourceGroup, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, other = place_two(cluster)
    before(monkeypatch, together, "_left", lambda: stop_as_another(stopped))
    sent.clear()

    assert together.launch_sessions([stopped, other]) == []
    hear_ends_of_launches(sent)
    found = dict(ComputeSession.objects.values_list("pk", "status"))
    assert found == {stopped: Status.TERMINATED, other: Status.RUNNING}


def test_one_of_many_whose_row_somebody_holds_when_its_containers_run_is_launched_alone(
    cluster: ResourceGroup, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As whoever names it as one to come after does."""
    held, other = place_two(cluster)
    holds, done = Event(), Event()

    def hold() -> None:
        with transaction.atomic():
            ComputeSession.objects.select_for_update(no_key=True).get(pk=held)
            holds.set()
            assert done.wait(timeout=30)
        connections.close_all()

    with ThreadPoolExecutor(1) as another:
        holding: list[Future[None]] = []

        def begin_to_hold() -> None:
            holding.append(another.submit(hold))
            assert holds.wait(timeout=30)

        before(monkeypatch, lifecycle, "transition_many", begin_to_hold)
        left = together.launch_sessions([held, other])
        done.set()
        holding[0].result(timeout=30)

    assert left == [held]
    launcher.launch_session(held)
    found = dict(ComputeSession.objects.values_list("pk", "status"))
    assert found == {held: Status.RUNNING, other: Status.RUNNING}


def test_a_launch_that_nobody_stopped_asks_for_no_end(sent: Sent) -> None:
    session = make_place().place()
    sent.clear()
    launcher.launch_session(session.pk)
    assert not {TaskName.TERMINATE_SESSION, TaskName.TERMINATE_SESSIONS} & {name for name, _ in sent}


def test_a_round_looks_at_no_machine_alone_because_its_sessions_were_launched_after_it_was_listed(
    cluster: ResourceGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor, request = next(simulation.workload(simulation.people_of(cluster), seed=1))
    enqueue_session(actor=actor, request=request)
    placed = run_tick(cluster.pk)
    looked_at: list[object] = []
    monkeypatch.setattr(reconcile, "reconcile_agent", lambda agent, runtime: looked_at.append(agent))
    before(monkeypatch, together, "live_on", lambda: _launch_as_another(placed))

    reconcile.reconcile_agents()
    assert ComputeSession.objects.get(pk=placed[0]).status == Status.RUNNING
    assert looked_at == []

    runtime = runtime_of(ComputeSession.objects.get(pk=placed[0]).kernels.get().placed_agent)
    for container in runtime.list_containers({}):
        runtime.remove_container(container.name)
    reconcile.reconcile_agents()
    assert len(looked_at) == 1  # what differs goes on to be looked at


def _launch_as_another(session_ids: list[UUID]) -> None:
    def launch() -> None:
        try:
            assert together.launch_sessions(session_ids) == []
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as another:
        another.submit(launch).result()
