"""Meters of accelerators on a real engine, by a fake driver library."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.accelerators.description import vendor_named
from agents.accelerators.grant import BoundPath, DeviceGrant
from agents.core.states import AgentState
from agents.metering import meter_containers
from agents.metering.scrape import MeasuredDevice, read_meters
from agents.models import Agent
from agents.runtime.docker.async_runtime import DockerAsyncRuntime
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import ContainerStatus
from tests import engines
from tests.contract.test_engine_faults import engine_over_tls, make_certificates, material
from tests.nvml import FakeNvml
from tests.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("empty_redis")]
VENDOR = vendor_named("nvidia")
assert VENDOR


@pytest.fixture
def runtime(settings: Any) -> Iterator[DockerRuntime]:
    settings.BERTH_INSTALLATION = engines.INSTALLATION
    runtime = DockerRuntime(engines.ADDRESS)
    yield runtime
    runtime.close()
    engines.remove_everything()


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Eight devices, of which each meter of NVIDIA is told."""
    nvml = FakeNvml(tmp_path)
    environment = {**nvml.environment(gpus=8), "FAKE_NVML_OPENED": "/dev/null"}
    folders = tuple(BoundPath(str(path)) for path in (nvml.library, tmp_path))
    monkeypatch.setattr(
        meter_containers,
        "grant_for",
        lambda request, info, nodes: DeviceGrant(binds=folders, environment=environment),
    )
    return nvml


def lines_of(name: str) -> dict[str, Any]:
    async def read() -> bytes:
        runtime = DockerAsyncRuntime(engines.ADDRESS)
        try:
            return await runtime.read_last_line(name)
        finally:
            await runtime.close()

    found = asyncio.run(read())
    return dict(json.loads(found)) if found else {}


def test_a_meter_is_read_replaced_and_removed(runtime: DockerRuntime, image: str, nvml: FakeNvml) -> None:
    agent = Agent(pk=1, name="gpu-01", address=engines.ADDRESS, state=AgentState.CONNECTED)
    name = meter_containers.meter_name("nvidia")
    nvml.do("0 percent 37", "0 used 20480", "0 pid 4711")
    meter_containers.reconcile_meters_of(agent, [VENDOR], [image])
    wait_until(lambda: lines_of(name).get("line", 0) >= 2, deadline_s=30)
    first = runtime.inspect_container(name)
    assert first
    uuid = json.loads(lines_of(name)["commands"]["berth-nvml"]["stdout"])["devices"][0]["uuid"]
    devices = [MeasuredDevice(7, uuid, "nvidia", "", {"uuid": uuid}, 0)]
    [use] = read_meters({agent: devices}, within_s=5)[1].uses
    assert (use.percent, use.mem_bytes, use.processes[0].pid) == (37, 20480 * 2**20, 4711)  # type: ignore[index]
    assert use.activity == 37

    meter_containers.reconcile_meters_of(agent, [VENDOR], [image])  # left alone
    assert runtime.inspect_container(name).container_id == first.container_id  # type: ignore[union-attr]
    runtime.stop_container(name, 0)  # as after an upgrade of the driver, when its library fails
    line = lines_of(name)["line"]
    read_meters({agent: devices}, within_s=5)
    assert lines_of(name)["line"] == line
    assert read_meters({agent: devices}, within_s=5) == {}  # what a meter said once is not said again
    meter_containers.reconcile_meters_of(agent, [VENDOR], [image])
    second = runtime.inspect_container(name)
    assert second
    assert second.container_id != first.container_id
    assert second.status is ContainerStatus.RUNNING

    meter_containers.reconcile_meters_of(agent, [], [image])
    assert runtime.inspect_container(name) is None


def test_a_meter_of_eight_devices_takes_little_memory_and_two_percent_of_a_core(
    runtime: DockerRuntime, image: str, nvml: FakeNvml
) -> None:
    agent = Agent(pk=1, name="gpu-01", address=engines.ADDRESS, state=AgentState.CONNECTED)
    meter_containers.reconcile_meters_of(agent, [VENDOR], [image])
    name = meter_containers.meter_name("nvidia")

    async def use() -> Any:
        engine = DockerAsyncRuntime(engines.ADDRESS)
        try:
            return await engine.measure_container(name)
        finally:
            await engine.close()

    wait_until(lambda: lines_of(name).get("line", 0) >= 3, deadline_s=30)
    first, before = lines_of(name)["line"], asyncio.run(use())
    wait_until(lambda: lines_of(name)["line"] >= first + 8, deadline_s=30)
    last, after = lines_of(name)["line"], asyncio.run(use())
    ms_per_line = (after.cpu_ns - before.cpu_ns) / (last - first) / 1e6
    assert ms_per_line <= 20
    assert after.mem_bytes <= 40 * 2**20


def test_a_meter_is_read_through_an_engine_over_tls(
    runtime: DockerRuntime, image: str, nvml: FakeNvml, tmp_path_factory: pytest.TempPathFactory
) -> None:
    agent = Agent(pk=1, name="gpu-01", address=engines.ADDRESS, state=AgentState.CONNECTED)
    meter_containers.reconcile_meters_of(agent, [VENDOR], [image])
    keys = make_certificates(tmp_path_factory.mktemp("tls"))

    async def read() -> bytes:
        async with engine_over_tls(keys) as address:
            engine = DockerAsyncRuntime(address, material(keys))
            try:
                return await engine.read_last_line(meter_containers.meter_name("nvidia"))
            finally:
                await engine.close()

    wait_until(lambda: json.loads(asyncio.run(read()) or b"{}").get("line", 0) >= 1, deadline_s=30)
