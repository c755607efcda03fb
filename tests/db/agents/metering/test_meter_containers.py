"""Meters of remote machines follow their devices and their state."""

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


def test_a_machine_has_a_meter_for_each_vendor_that_can_be_measured_until_it_is_retired() -> None:
    agent = make_place().agent
    runtime = SimulatedRuntime(name="remote", images=(IMAGE,))
    Agent.objects.filter(pk=agent.pk).update(address="tcp://10.0.0.7:2376", engine_id="remote")
    adopt_runtime("tcp://10.0.0.7:2376", runtime)
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
