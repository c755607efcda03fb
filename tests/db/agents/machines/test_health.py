"""Warnings and quarantine of devices by the rules of their vendor, and what follows from them."""

import pytest

from agents.accelerators.description import Health, HealthRule
from agents.machines.health import judge_devices
from agents.machines.withholding import quarantine_device, release_device
from agents.models import Agent, AgentDevice, AgentSlot
from common.actors import SYSTEM
from common.models import AuditEntry
from portal.models import Notification
from scheduler.tick import run_tick
from tests.factories_devices import give_devices
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
RULES = {
    "nvidia": Health(
        rules=(
            HealthRule(field="throttle", one_of=(1,), then="warn", because="slowed"),
            HealthRule(field="errors", above=0, then="quarantine", because="memory_errors"),
        )
    )
}


@pytest.fixture
def place(empty_redis: None) -> Place:
    made = make_place()
    give_devices(made.agent, 2)
    AgentDevice.objects.update(vendor="nvidia")
    return made


def look(place: Place, last: dict, **values: object) -> dict:
    """Judge the devices, the first of which told these values."""
    rows = list(place.agent.devices.order_by("index"))
    told = {rows[0].device_id: values, rows[1].device_id: {}}
    return judge_devices(Agent.objects.get(pk=place.agent.pk), rows, RULES, told, last)


def first(place: Place) -> AgentDevice:
    return place.agent.devices.order_by("index").first()


def history(place: Place) -> list[str]:
    entries = AuditEntry.objects.filter(target_type="agents.agentdevice", target_id=str(first(place).pk))
    return [entry.action.removeprefix("agents.") for entry in entries.order_by("pk")]


def test_an_ill_device_is_put_aside_until_somebody_lifts_it(
    place: Place, django_capture_on_commit_callbacks
) -> None:
    session = place.enqueue(name="train", resources={"cpu": 1, "mem": "1g", "gpu": 1})
    run_tick(place.group.pk)
    held = AgentDevice.objects.get(occupied=1000)
    assert held == first(place)
    known = look(place, {}, errors=0)
    with django_capture_on_commit_callbacks(execute=True):
        known = look(place, known, errors=2)
        known = look(place, known, errors=3)
    device = first(place)
    assert (device.withheld, device.withheld_because) == (
        "quarantine",
        "Memory errors that could not be corrected.",
    )
    assert AgentSlot.objects.get(agent=place.agent, slot_name="gpu").capacity == 1000
    told = Notification.objects.get()
    assert (told.code, told.person, told.session_id) == ("device_trouble", place.owner, session.pk)

    release_device(actor=SYSTEM, device_id=device.pk)
    known = look(place, known, errors=3)
    assert first(place).is_usable, "for the same reason it is not put aside again"
    assert AgentSlot.objects.get(agent=place.agent, slot_name="gpu").capacity == 2000
    look(place, look(place, known, errors=0), errors=1)
    assert not first(place).is_usable
    assert history(place) == ["withhold_device", "release_device", "withhold_device"]


def test_a_warning_goes_by_itself_and_a_device_that_tells_nothing_keeps_it(place: Place) -> None:
    known = look(place, {}, throttle=1)
    assert (first(place).warning, first(place).is_usable) == ("Slowed down by heat or power.", True)
    rows = list(place.agent.devices.all())
    known = judge_devices(place.agent, rows, {}, {}, known)
    known = judge_devices(place.agent, rows, RULES, {}, known)
    assert first(place).warning
    look(place, known, throttle=0)
    assert first(place).warning == ""
    assert history(place) == ["warn_of_device", "warn_of_device"]


def test_a_device_that_vanished_under_a_session_is_judged_once(place: Place) -> None:
    place.enqueue(name="train", resources={"cpu": 1, "mem": "1g", "gpu": 1})
    run_tick(place.group.pk)
    known = look(place, {}, errors=0)
    AgentDevice.objects.update(is_present=False)  # the other one is free
    known = look(place, known)
    assert first(place).withheld == "quarantine"
    release_device(actor=SYSTEM, device_id=first(place).pk)
    look(place, known)
    assert [row.withheld for row in place.agent.devices.all()] == ["", ""]


def test_what_an_administrator_says_is_in_the_history(place: Place) -> None:
    quarantine_device(actor=SYSTEM, device_id=first(place).pk, because="Fan is loud.")
    entry = AuditEntry.objects.get(action="agents.withhold_device")
    assert entry.changes == {"kind": "administrator", "because": "Fan is loud."}


def test_partitions_of_an_ill_device_are_put_aside_with_it(place: Place) -> None:
    part = place.agent.devices.order_by("index").last()
    AgentDevice.objects.filter(pk=part.pk).update(parent_id=first(place).device_id)
    AgentDevice.objects.filter(pk=first(place).pk).update(withheld="partitioned")
    look(place, look(place, {}, errors=0), errors=1)
    part.refresh_from_db()
    assert part.withheld == "quarantine"
