"""Accelerators of containers on a real engine: a container reaches the device nodes of its grant and no others.

Virtual consoles stand for accelerators: several minors of one major, which containers do not get by default.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agents.accelerators.grant import DeviceGrant, DeviceNode, DriverRequest
from agents.machines.discovery import discover_due
from agents.machines.network_isolation import NOT_REQUIRED
from agents.machines.service import refresh_agent
from agents.models import Agent, AgentDevice
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import DeviceUnavailable
from common.actors import SYSTEM
from images.models import ContainerImage
from sessions_app.core.states import Status
from sessions_app.models import KernelAllocation
from tests import engines
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.docker
MAJOR, OWN, NEIGHBOUR = 4, 10, 11
OPENS = "(exec 3<>{}) 2>/dev/null && echo opens || echo refused"


@pytest.fixture
def own(tmp_path: Path) -> str:
    """Node of the granted device; that of its neighbour lies beside it."""
    for name, minor in (("card0", OWN), ("card1", NEIGHBOUR)):
        os.mknod(tmp_path / name, stat.S_IFCHR, os.makedev(MAJOR, minor))
        (tmp_path / name).chmod(0o666)
    return str(tmp_path / "card0")


@pytest.fixture
def place() -> Place:
    return make_place()


def start(runtime: DockerRuntime, grant: DeviceGrant, **changes: object) -> str:
    spec = engines.tiny_spec(f"berth-test-{uuid4().hex[:12]}", grant=grant, **changes)
    runtime.ensure_container(spec)
    runtime.start_container(spec.name)
    return spec.name


def output_of(runtime: DockerRuntime, name: str, script: str) -> list[str]:
    return runtime.run_process(name, ["sh", "-c", script]).output.decode().splitlines()


def test_granted_node_opens_and_its_neighbour_is_neither_there_nor_can_be_made(
    runtime: DockerRuntime, own: str
) -> None:
    plain = start(runtime, DeviceGrant())
    given = start(
        runtime,
        DeviceGrant(nodes=(DeviceNode(own, "/dev/card0"),), environment={"NVIDIA_VISIBLE_DEVICES": "GPU-0"}),
        environment={"NVIDIA_VISIBLE_DEVICES": "all"},
    )
    listed = [set(output_of(runtime, name, "find /dev -type c -o -type b")) for name in (plain, given)]
    assert listed[1] - listed[0] == {"/dev/card0"}
    script = "; ".join(
        [OPENS.format("/dev/card0"), f"mknod /tmp/x c {MAJOR} {NEIGHBOUR} 2>/dev/null || echo none"]
    )
    assert output_of(runtime, given, script) == ["opens", "none"]
    assert output_of(runtime, given, "echo $NVIDIA_VISIBLE_DEVICES; grep CapEff /proc/self/status") == [
        "GPU-0",
        f"CapEff:\t{0:016x}",
    ]


def test_control_group_refuses_the_neighbour_even_to_root_with_its_node(
    runtime: DockerRuntime, own: str
) -> None:
    grant = DeviceGrant(nodes=(DeviceNode(own, "/dev/card0"),), capabilities=("MKNOD",))
    name = start(runtime, grant, user="0:0")
    for minor, word in ((OWN, "opens"), (NEIGHBOUR, "refused")):
        made = f"mknod /tmp/{minor} c {MAJOR} {minor} && " + OPENS.format(f"/tmp/{minor}")
        assert output_of(runtime, name, made) == [word]


def test_group_of_a_node_opens_it(runtime: DockerRuntime, own: str) -> None:
    os.chown(own, 0, 44)
    Path(own).chmod(0o660)
    node = DeviceNode(own, "/dev/card0")
    for groups, word in (((), "refused"), ((44,), "opens")):
        name = start(runtime, DeviceGrant(nodes=(node,), groups=groups))
        assert output_of(runtime, name, OPENS.format("/dev/card0")) == [word]


@pytest.fixture
def mock_devices() -> Iterator[None]:
    """Two devices of the mock vendor on this machine."""
    nodes = [Path(f"/dev/berth-mock{number}") for number in (OWN, NEIGHBOUR)]
    for node, minor in zip(nodes, (OWN, NEIGHBOUR), strict=True):
        node.unlink(missing_ok=True)
        os.mknod(node, stat.S_IFCHR, os.makedev(MAJOR, minor))
        node.chmod(0o666)
    yield
    for node in nodes:
        node.unlink()


@pytest.mark.django_db
def test_session_reaches_the_device_that_was_found_and_allocated(
    runtime: DockerRuntime, place: Place, mock_devices: None, settings: Any
) -> None:
    settings.BERTH_WALLS, settings.BERTH_INSTALLATION = NOT_REQUIRED, engines.INSTALLATION
    image = runtime.inspect_image(engines.TINY_IMAGE)
    assert image is not None
    ContainerImage.objects.update(reference=engines.TINY_IMAGE, architecture=image.architecture)
    place.image.refresh_from_db()
    Agent.objects.filter(pk=place.agent.pk).update(address=engines.ADDRESS)
    refresh_agent(actor=SYSTEM, agent_id=place.agent.pk)
    Agent.objects.filter(pk=place.agent.pk).update(engine_id=runtime.info().engine_id)
    discover_due([])

    session = place.run(resources={"cpu": 0.1, "mem": "64m", "mock": 1})
    assert session.status == Status.RUNNING, session.status_message
    container = session.kernels.get().container_name
    [allocation] = KernelAllocation.objects.filter(slot_name="mock")
    [index] = AgentDevice.objects.filter(pk__in=allocation.devices).values_list("index", flat=True)
    assert output_of(runtime, container, "ls -d /dev/berth*; echo $BERTH_MOCK_DEVICES $BERTH_GPU_COUNT") == [
        f"/dev/berth-mock{index}",
        f"{index} 1",
    ]
    assert output_of(runtime, container, OPENS.format(f"/dev/berth-mock{index}")) == ["opens"]
    assert place.end(session).status == Status.TERMINATED


@pytest.mark.parametrize(
    "grant",
    [
        DeviceGrant(nodes=(DeviceNode("/dev/berth-is-gone"),)),
        DeviceGrant(requests=(DriverRequest("berth-test", ("GPU-0",), ("gpu",)),)),
        DeviceGrant(runtime="berth-test"),
    ],
    ids=["node", "driver", "runtime"],
)
def test_engine_that_cannot_give_a_device_says_so(runtime: DockerRuntime, grant: DeviceGrant) -> None:
    with pytest.raises(DeviceUnavailable):
        start(runtime, grant)


def test_memory_may_be_locked_without_limit_or_the_engine_says_why_not(runtime: DockerRuntime) -> None:
    try:
        name = start(runtime, DeviceGrant(locks_memory=True))
    except DeviceUnavailable:
        name = ""  # an engine that is itself in a container may not raise the limit
    assert not name or output_of(runtime, name, "ulimit -l") == ["unlimited"]
