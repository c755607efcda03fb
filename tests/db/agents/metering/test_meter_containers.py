"""Meters of machines follow their devices and their state."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from agents.core.states import AgentState
from agents.metering.meter_containers import meter_name, reconcile_meters
from agents.models import Agent, AgentDevice
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from tests.factories_devices import give_devices
from tests.factories_sessions import make_place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]
IMAGE = "berth/python:helper"


REMOTE = "tcp://10.0.0.7:2376"


@pytest.fixture(autouse=True)
def data(tmp_path: Path, settings: Any) -> Path:
    settings.DATA_DIR = tmp_path
    return tmp_path


def machine_at(address: str) -> tuple[Agent, SimulatedRuntime]:
    agent = make_place().agent
    runtime = SimulatedRuntime(name="real", images=(IMAGE,))
    Agent.objects.filter(pk=agent.pk).update(address=address, engine_id="real")
    adopt_runtime(address, runtime)
    return agent, runtime


@pytest.mark.parametrize("address", [REMOTE, "unix:///var/run/metered.sock"])
def test_a_machine_has_a_meter_for_each_vendor_that_can_be_measured_until_it_is_retired(
    address: str,
) -> None:
    agent, runtime = machine_at(address)
    give_devices(agent, 3)
    names = ("nvidia", "tenstorrent", "groq")
    for device, vendor in zip(AgentDevice.objects.filter(agent=agent), names, strict=True):
        AgentDevice.objects.filter(pk=device.pk).update(vendor=vendor)

    def meters() -> list[str]:
        reconcile_meters([IMAGE])
        labels = {"io.berth.installation": settings.BERTH_INSTALLATION}
        return [state.name for state in runtime.list_containers(labels)]

    assert meters() == [meter_name("nvidia"), meter_name("tenstorrent")]
    AgentDevice.objects.filter(vendor="tenstorrent").update(is_present=False)
    assert meters() == [meter_name("nvidia")]
    Agent.objects.filter(pk=agent.pk).update(state=AgentState.RETIRED)
    assert meters() == []


def test_remote_machines_are_in_the_file_of_the_purge_until_they_are_retired(data: Path) -> None:
    agent, _ = machine_at(REMOTE)
    make_place()  # simulated

    def told() -> Any:
        reconcile_meters([IMAGE])
        return json.loads((data / "machines.json").read_text())

    assert told() == {agent.name: {"address": REMOTE, "directory": ""}}
    Agent.objects.filter(pk=agent.pk).update(state=AgentState.RETIRED)
    assert told() == {}
