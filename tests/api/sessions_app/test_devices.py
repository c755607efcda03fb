"""Devices over REST and on pages."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from agents.accelerators.base import DeviceUse
from agents.metering.collector import measure_devices
from agents.models import AgentDevice
from scheduler.tick import run_tick
from sessions_app.models import KernelAllocation
from tests.factories import api_client
from tests.factories_devices import give_devices
from tests.factories_sessions import Place, make_place

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]


@pytest.fixture
def place() -> Place:
    made = make_place()
    give_devices(made.agent, 3, "Big One")
    return made


def test_a_session_tells_which_devices_it_has(place: Place, browser_of: Callable[[User], Client]) -> None:
    session = place.enqueue(resources={"cpu": 1, "mem": "1g", "gpu": 0.5})
    client, page = api_client(place.owner), browser_of(place.owner)
    assert client.get(f"/api/v1/sessions/{session.pk}/").json()["devices"] == []
    run_tick(place.group.pk)

    [device] = client.get(f"/api/v1/sessions/{session.pk}/").json()["devices"]
    assert device == {
        "kernel": "main1",
        "agent": place.agent.name,
        "slot_name": "gpu",
        "index": 0,
        "device_id": "gpu-0",
        "model": "Big One",
        "share": 500,
        "isolation": "",
        "isolation_sentence": "Not verified on the running container.",
        "isolation_note": "",
    }
    KernelAllocation.objects.filter(slot_name="gpu").update(isolation="none", isolation_note="too old")
    shown = page.get(f"/sessions/{session.pk}/").content.decode()
    for words in (
        "Big One",
        f"gpu 0 of {place.agent.name}",
        "50 %",
        "Nothing is limited",
        "(too old)",
        "gpu-0",
    ):
        assert words in shown


def test_an_agent_tells_what_is_held_of_each_device(place: Place) -> None:
    place.enqueue(resources={"cpu": 1, "mem": "1g", "gpu": 0.5})
    run_tick(place.group.pk)
    AgentDevice.objects.filter(agent=place.agent, index=2).update(is_present=False)
    [agent] = api_client(place.owner).get("/api/v1/agents/").json()["results"]
    assert [(each["index"], each["occupied"], each["is_present"]) for each in agent["devices"]] == [
        (0, 500, True),
        (1, 0, True),
        (2, 0, False),
    ]


def test_all_accelerators_are_listed_by_pages_with_their_use(place: Place, people: Any) -> None:
    place.runtime.accelerators.use(DeviceUse(device_id="gpu-2", percent=7, mem_bytes=2**30))
    measure_devices()
    client = api_client(people.superadmin)
    page = client.get("/api/v1/devices/?page_size=2&page=2").json()
    assert (page["count"], page["next"]) == (3, None)
    [device] = page["results"]
    names = ("index", "state", "percent", "mem_bytes", "watts", "holders")
    assert [device[name] for name in names] == [2, "free", 7, 2**30, None, []]
    assert client.get("/api/v1/devices/?top=busiest").json()["results"] == []
    assert client.get("/api/v1/devices/?top=coldest").status_code == 400
    machine = client.get(f"/api/v1/agents/{place.agent.pk}/devices/?window=1d").json()
    assert [device["name"] for device in machine["devices"]] == ["gpu 0", "gpu 1", "gpu 2"]
