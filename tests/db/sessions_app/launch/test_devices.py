"""Accelerators of containers: given as allocated, else withheld, and the session looks elsewhere once."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.machines.network_isolation import NOT_REQUIRED
from agents.machines.withholding import TRIED_AGAIN_AFTER, release_unavailable_devices
from agents.models import Agent, AgentDevice, AgentSlot, Withheld
from agents.runtime.port import ContainerSpec, ContainerState, DeviceUnavailable
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.sharing.device_groups import indices_lock
from common import clock
from common.db.advisory_locks import locked_subjects
from scheduler.tick import run_tick
from sessions_app.core.states import Reason, Status
from sessions_app.launch import launcher
from sessions_app.launch.launcher import launch_session
from sessions_app.launch.terminator import end_session
from sessions_app.models import ComputeSession, KernelAllocation, SessionTransition
from sessions_app.termination.service import terminate_session
from tests.factories import actor_for
from tests.factories_devices import devices_of
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
MISSING = 'error gathering device information while adding custom device "/dev/dri/renderD{}": no such file or directory'


class Engine(SimulatedRuntime):
    """Engine that keeps the specs of its containers, and fails at their start as told."""

    def __init__(self, name: str, image: str) -> None:
        super().__init__(name=name, images=(image,))
        self.specs: list[ContainerSpec] = []
        self.failure = ""

    def ensure_container(self, spec: ContainerSpec) -> ContainerState:
        self.specs.append(spec)
        return super().ensure_container(spec)

    def start_container(self, name: str) -> None:
        if self.failure:
            raise DeviceUnavailable(self.failure)
        super().start_container(name)


@pytest.fixture
def place() -> Place:
    return make_place()


@pytest.fixture
def engine(place: Place, settings: Any) -> Engine:
    """Engine of a machine that is not simulated, with two GPUs of AMD."""
    settings.BERTH_WALLS = NOT_REQUIRED
    engine = Engine(place.agent.name, place.image.reference)
    adopt_runtime("unix:///engine.sock", engine)
    nodes = {"/dev/kfd": 109, "/dev/dri/renderD128": 44, "/dev/dri/renderD129": 44}
    Agent.objects.filter(pk=place.agent.pk).update(
        address="unix:///engine.sock",
        engine_version="28.2.0",
        data={**place.agent.data, "device_nodes": nodes},
    )
    AgentSlot.objects.create(agent=place.agent, slot_name="rocm", capacity=2000)
    AgentDevice.objects.bulk_create(
        AgentDevice(
            agent=place.agent, slot_name="rocm", device_id=f"0x{number}", index=number, model="MI300X", vendor="amd",
            mem_bytes=192 * 2**30, facts={"minor": 128 + number},
        )
        for number in range(2)
    )  # fmt: skip
    return engine


def placed(place: Place, gpus: int = 1) -> ComputeSession:
    return place.place(resources={"cpu": 1, "mem": "1g", "rocm": gpus})


def launched(place: Place, session: ComputeSession) -> ComputeSession:
    launch_session(session.pk)
    return place.fresh(session)


def ended(place: Place, session: ComputeSession) -> ComputeSession:
    end_session(session.pk)
    return place.fresh(session)


def withheld(place: Place) -> list[str]:
    return [device.withheld for device in devices_of(place.agent)]


def test_container_gets_its_devices_and_is_told_of_them(place: Place, engine: Engine) -> None:
    session = launched(place, placed(place))
    assert session.status == Status.RUNNING
    [spec] = engine.specs
    assert [node.path for node in spec.grant.nodes] == ["/dev/kfd", "/dev/dri/renderD128"]
    assert spec.grant.groups == (44, 109)
    [row] = json.loads(spec.grant.environment["BERTH_DEVICES"])
    assert (row["id"], row["memory"], row["share"]) == ("0x0", 192 * 2**30, 1)
    assert spec.environment["NCCL_SOCKET_IFNAME"] == "eth0"


def test_launch_without_devices_asks_for_none(place: Place, engine: Engine) -> None:
    session = place.place()
    with CaptureQueriesContext(connection) as queries:
        launch_session(session.pk)
    assert place.fresh(session).status == Status.RUNNING
    assert not [query for query in queries if AgentDevice._meta.db_table in query["sql"]]
    [spec] = engine.specs
    assert (spec.grant.nodes, spec.grant.environment) == ((), {})
    assert "NCCL_SOCKET_IFNAME" not in spec.environment


def test_session_whose_device_is_gone_gets_another_and_the_device_waits(place: Place, engine: Engine) -> None:
    session = placed(place)
    engine.failure = MISSING.format(128)
    assert launched(place, session).status_reason == Reason.DEVICE_UNAVAILABLE
    assert withheld(place) == [Withheld.UNAVAILABLE, ""]
    assert place.agent.slots.get(slot_name="rocm").capacity == 1000
    waiting = ended(place, session)
    assert (waiting.status, waiting.status_reason) == (Status.PENDING, Reason.REQUEUED)
    assert not KernelAllocation.objects.exists()

    engine.failure = ""
    run_tick(place.group.pk)
    assert launched(place, session).status == Status.RUNNING
    assert [node.path for node in engine.specs[-1].grant.nodes][1:] == ["/dev/dri/renderD129"]
    assert [device.occupied for device in devices_of(place.agent)] == [0, 1000]

    release_unavailable_devices()
    assert withheld(place) == [Withheld.UNAVAILABLE, ""]
    AgentDevice.objects.filter(index=0).update(
        withheld_since=clock.now() - TRIED_AGAIN_AFTER - timedelta(seconds=1)
    )
    release_unavailable_devices()
    assert withheld(place) == ["", ""]
    assert place.agent.slots.get(slot_name="rocm").capacity == 2000


def test_second_machine_that_fails_ends_the_session_with_the_reason(place: Place, engine: Engine) -> None:
    session = placed(place)
    for minor in (128, 129):
        engine.failure = MISSING.format(minor)
        run_tick(place.group.pk)
        launched(place, session)
        over = ended(place, session)
    assert (over.status, over.status_reason) == (Status.ERROR, Reason.DEVICE_UNAVAILABLE)
    assert "/dev/dri/renderD129" in over.status_message.quote
    assert withheld(place) == [Withheld.UNAVAILABLE] * 2
    assert not KernelAllocation.objects.exists()
    moves = SessionTransition.objects.filter(session=session, from_status=Status.TERMINATING)
    assert [move.to_status for move in moves.order_by("pk")] == [Status.PENDING, Status.ERROR]


def test_failure_of_what_all_devices_need_withholds_all_of_them(place: Place, engine: Engine) -> None:
    session = placed(place)
    engine.failure = "error setting rlimit type 8: operation not permitted"
    launched(place, session)
    assert withheld(place) == [Withheld.UNAVAILABLE] * 2


def test_launch_killed_before_the_start_releases_its_devices_once(place: Place, engine: Engine) -> None:
    session = placed(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "start_container", lambda name: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(SystemExit):
            launch_session(session.pk)
    assert [device.occupied for device in devices_of(place.agent)] == [1000, 0]

    terminate_session(actor=actor_for(place.owner), session_id=session.pk)
    for _ in range(2):
        assert ended(place, session).status == Status.TERMINATED
        assert [device.occupied for device in devices_of(place.agent)] == [0, 0]


def test_session_that_is_stopped_while_its_device_fails_is_not_tried_again(
    place: Place, engine: Engine
) -> None:
    session = placed(place)
    engine.failure = MISSING.format(128)
    launched(place, session)
    terminate_session(actor=actor_for(place.owner), session_id=session.pk)
    assert ended(place, session).status == Status.ERROR


def test_container_gets_its_device_though_indices_change_while_it_is_prepared(
    place: Place, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    AgentDevice.objects.update(vendor="rebellions", facts={"set": 0})
    AgentSlot.objects.filter(slot_name="rocm").update(slot_name="atom")
    AgentDevice.objects.update(slot_name="atom")
    agent = Agent.objects.get(pk=place.agent.pk)
    agent.data["device_nodes"] |= dict.fromkeys(("/dev/rbln0", "/dev/rbln1", "/dev/rsd0"), 0)
    agent.save()
    session = place.place(resources={"cpu": 1, "mem": "1g", "atom": 1})

    def regroup(*_: object) -> None:  # as another session's group does
        AgentDevice.objects.filter(device_id="0x0").update(index=1)
        AgentDevice.objects.filter(device_id="0x1").update(index=0)

    def killed(name: str) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:  # leaves a container with the node of the old index
        patch.setattr(engine, "start_container", killed)
        with pytest.raises(SystemExit):
            launch_session(session.pk)
    assert engine.specs.pop().grant.nodes[0].path == "/dev/rbln0"

    start, held = engine.start_container, []

    def start_container(name: str) -> None:
        held.append(locked_subjects([indices_lock(agent)]))
        start(name)

    monkeypatch.setattr(launcher, "require_isolation", regroup)
    monkeypatch.setattr(engine, "start_container", start_container)
    assert launched(place, session).status == Status.RUNNING
    assert AgentDevice.objects.get(occupied=1000).index == 1
    [spec] = engine.specs
    assert {node.path for node in spec.grant.nodes} == {"/dev/rbln1", "/dev/rsd0"}
    assert held == [{indices_lock(agent)}]
    assert not locked_subjects([indices_lock(agent)])


def test_device_of_an_unknown_vendor_is_refused_not_left_out(place: Place, engine: Engine) -> None:
    AgentDevice.objects.update(vendor="unheard-of")
    session = launched(place, placed(place))
    assert session.status_reason == Reason.DEVICE_UNAVAILABLE
    assert "unheard-of" in session.status_message.quote
    assert not engine.specs


def test_group_gives_networks_of_accelerators_where_a_machine_has_them(place: Place, engine: Engine) -> None:
    nodes = {"/dev/infiniband/uverbs0": 0, "/dev/infiniband/rdma_cm": 0}
    agent = Agent.objects.get(pk=place.agent.pk)
    agent.data["device_nodes"] |= nodes
    agent.save()
    for is_allowed in (False, True):
        place.group.allows_rdma = is_allowed
        place.group.save()
        launched(place, placed(place))
        grant = engine.specs[-1].grant
        assert ({node.path for node in grant.nodes} >= nodes.keys()) is is_allowed
        assert grant.locks_memory is is_allowed
