"""Accelerators of machines are measured in rounds, rolled up, and absent where they are unknown."""

from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import pytest

from agents.accelerators.base import DeviceProcess, DeviceUse
from agents.machines.withholding import release_device
from agents.metering import collector
from agents.metering.collector import MINUTE_S, QUARTER_S, SAMPLE_S, measure_devices
from agents.metering.readings import device_series, present_uses, series_grid
from agents.metering.scrape import Measurement
from agents.models import Agent, AgentDevice, DeviceMetric, DeviceReading, HealthOverride
from agents.vendors.health_rules import change_health_rule
from common import clock
from common.actors import SYSTEM
from common.models import AuditEntry
from tests.factories_devices import devices_of, give_devices
from tests.factories_sessions import Place, make_place
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
GIB = 2**30


@pytest.fixture
def place() -> Place:
    """A machine with two accelerators, half busy."""
    return place_with(2)


def place_with(count: int) -> Place:
    made = make_place()
    give_devices(made.agent, count)
    for index in range(count):
        device_does(made, index, percent=50)
    return made


def device_does(place: Place, index: int, **values: Any) -> None:
    place.runtime.accelerators.use(DeviceUse(device_id=f"gpu-{index}", **values))


def measure(second: float = 0) -> None:
    with clock.frozen_at(NOON + timedelta(seconds=second)):
        measure_devices()


def test_a_round_stores_the_values_of_all_devices_of_a_machine(
    place: Place, django_assert_num_queries: Any
) -> None:
    other, without = place_with(1), make_place()
    processes = (DeviceProcess(4711, GIB, 30), DeviceProcess(4712))
    device_does(place, 0, percent=37, mem_bytes=GIB, watts=250.5, celsius=61, processes=processes)
    device_does(place, 1, mem_bytes=0)
    measure(), measure(60)
    with django_assert_num_queries(6):  # two of them begin and end the transaction of the roll-up
        measure(65)
    first, second = devices_of(place.agent)
    uses = present_uses([place.agent.pk, other.agent.pk, without.agent.pk], NOON + timedelta(seconds=70))
    assert len(uses) == 3
    assert (uses[first.pk].watts, uses[first.pk].activity, uses[first.pk].processes) == (250.5, 37, processes)
    assert (uses[second.pk].percent, uses[second.pk].mem_bytes, uses[second.pk].processes) == (None, 0, None)
    sample = DeviceMetric.objects.filter(agent=place.agent).latest("at")
    assert (sample.span_s, sample.devices, sample.percent) == (SAMPLE_S, [first.pk, second.pk], [37, None])
    assert not present_uses([place.agent.pk], NOON + timedelta(minutes=2))


def test_a_silent_device_is_absent_and_a_silent_machine_keeps_its_last_reading(place: Place) -> None:
    measure()
    place.runtime.accelerators.fall_silent("gpu-0")
    measure(10)
    place.runtime.accelerators.fall_silent("gpu-1")
    measure(20)
    assert list(DeviceMetric.objects.order_by("at").values_list("percent", flat=True)) == [[50, 50], [50]]
    assert DeviceReading.objects.get().at == NOON + timedelta(seconds=10)


def test_minutes_and_quarter_hours_have_the_mean_and_the_most(place: Place) -> None:
    first, second = devices_of(place.agent)
    for round_ in range(93):
        device_does(place, 0, percent=int(round_ == 0), mem_bytes=round_ * 6, watts=100.0 + round_ % 2)
        measure(round_ * SAMPLE_S)
    minute = DeviceMetric.objects.filter(span_s=MINUTE_S).earliest("at")
    assert (minute.at, minute.devices) == (NOON, [first.pk, second.pk])
    assert (minute.percent, minute.percent_max) == ([1, 50], [1, 50])
    assert (minute.mem_bytes[0], minute.mem_bytes_max[0]) == (15, 30)
    assert (minute.watts, minute.watts_max, minute.celsius) == ([100.5, None], [101.0, None], [None, None])
    assert DeviceMetric.objects.filter(span_s=MINUTE_S).count() == 15
    quarter = DeviceMetric.objects.get(span_s=QUARTER_S)
    assert (quarter.percent, quarter.percent_max[0], quarter.mem_bytes_max[0]) == ([1, 50], 1, 89 * 6)


def test_what_is_too_old_goes_and_what_a_clock_put_into_the_future_too(place: Place) -> None:
    for second in (0, 3600, 3661):
        measure(second)
    assert DeviceMetric.objects.filter(span_s=SAMPLE_S).count() == 2
    assert DeviceMetric.objects.filter(span_s=MINUTE_S).count() == 2
    measure(24 * 3600)
    measure(7200)
    ats = DeviceMetric.objects.filter(span_s=SAMPLE_S).values_list("at", flat=True)
    assert list(ats) == [NOON + timedelta(hours=2)]


def test_series_come_from_samples_and_later_from_minutes(place: Place) -> None:
    first, second = devices_of(place.agent)
    for round_ in range(14):
        device_does(place, 0, percent=round_, watts=1.5)
        measure(round_ * SAMPLE_S)
    now = NOON + timedelta(seconds=130)
    series = device_series([place.agent.pk], [first.pk, second.pk], series_grid(NOON, now, now))
    assert series[first.pk]["percent"] == list(range(14))
    assert (series[first.pk]["watts"][0], series[second.pk]["celsius"][0]) == (1.5, None)
    later = NOON + timedelta(hours=2)
    series = device_series([place.agent.pk], [first.pk], series_grid(NOON, later, later))
    assert (series[first.pk]["percent"], series[first.pk]["percent_max"]) == ([3, 9], [5, 11])


def test_a_driver_that_hangs_is_left_out_and_costs_one_wait(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = Event()
    answers = place_with(1)
    real = collector.measure_simulated

    def hang(agent: Agent, devices: Any) -> Measurement:
        return real(agent, devices) if agent.pk == answers.agent.pk or not go.wait(60) else Measurement()

    monkeypatch.setattr(collector, "ROUND_S", 0.2)
    monkeypatch.setattr(collector, "measure_simulated", hang)
    try:
        measure(), measure(10)
        assert set(DeviceMetric.objects.values_list("agent", flat=True)) == {answers.agent.pk}
        assert DeviceMetric.objects.count() == 2
    finally:
        go.set()
        wait_until(lambda: collector._pool.is_idle, deadline_s=30)


def test_a_machine_that_does_not_answer_and_a_device_that_is_gone_are_not_measured(place: Place) -> None:
    AgentDevice.objects.filter(pk=devices_of(place.agent)[0].pk).update(is_present=False)
    measure()
    assert DeviceMetric.objects.get().devices == [devices_of(place.agent)[1].pk]
    Agent.objects.update(last_error="no answer")
    measure(10)
    assert DeviceMetric.objects.count() == 1


def test_a_new_event_of_the_driver_withholds_its_device_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    AgentDevice.objects.update(vendor="nvidia")
    uses = (DeviceUse(device_id="gpu-0", percent=1),)
    told = Measurement(uses, {"gpu-0": {"xids": [31, 79]}, "gpu-1": {"xids": [31]}})
    monkeypatch.setattr(collector, "measure_simulated", lambda agent, devices: told)
    measure()
    assert [device.withheld for device in devices_of(place.agent)] == ["quarantine", ""]

    release_device(actor=SYSTEM, device_id=devices_of(place.agent)[0].pk)
    measure(10)
    assert [device.withheld for device in devices_of(place.agent)] == ["", ""]


def test_a_value_of_a_meter_makes_a_verdict_worse_by_the_rules_of_administrators(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    AgentDevice.objects.update(vendor="nvidia")
    looked = {"values": {"throttle": 0}, "verdict": ["ok", ""]}
    Agent.objects.filter(pk=place.agent.pk).update(data={"discovery": {"health": {"gpu-0": looked}}})
    uses = (DeviceUse(device_id="gpu-0", percent=1), DeviceUse(device_id="gpu-1", percent=1))
    told = Measurement(uses, {"gpu-0": {"throttle": 1, "xids": [79]}, "gpu-1": {"throttle": 1}})
    monkeypatch.setattr(collector, "measure_simulated", lambda agent, devices: told)
    change_health_rule(actor=SYSTEM, vendor="nvidia", rule="xid-79", action="ignore")
    measure()
    first, second = devices_of(place.agent)
    assert (first.warning, first.withheld) == ("Slowed down by heat or power.", "")
    assert second.warning == "", "no look has judged it yet"

    change_health_rule(actor=SYSTEM, vendor="nvidia", rule="throttle", action="quarantine")
    measure(10), measure(20)
    assert devices_of(place.agent)[0].withheld == "quarantine"
    assert AuditEntry.objects.filter(action="agents.withhold_device").count() == 1
    change_health_rule(actor=SYSTEM, vendor="nvidia", rule="throttle", action=None)
    assert list(HealthOverride.objects.values_list("rule", "action")) == [("xid-79", "ignore")]
    assert AuditEntry.objects.filter(action="agents.change_health_rule").count() == 3
