"""Accelerators as they are now, with those who hold them, and their series."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounts.models import User
from agents.accelerators.base import DeviceProcess, DeviceUse
from agents.core.device_states import DeviceState
from agents.metering.collector import measure_devices
from agents.models import AgentDevice
from common import clock
from sessions_app.metrics.collector import measure_sessions
from sessions_app.metrics.device_history import MachineWindow, agent_device_metrics, session_device_metrics
from sessions_app.metrics.history import Window
from sessions_app.metrics.present_devices import Top, present_devices, top_devices
from sessions_app.models import ComputeSession, KernelUsage
from tests.db.sessions_app.metrics.test_accelerators import device_does, run_on, with_parts
from tests.factories import actor_for
from tests.factories_devices import devices_of, give_devices
from tests.factories_sessions import Place, make_place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
GIB = 2**30


@pytest.fixture
def place() -> Place:
    """A machine with four accelerators; one held, one shared by two sessions."""
    made = make_place()
    give_devices(made.agent, 4)
    return made


@pytest.fixture
def superadmin(people: Any) -> User:
    found: User = people.superadmin
    return found


def measure(minutes: float = 0) -> None:
    with clock.frozen_at(NOON + timedelta(minutes=minutes)):
        measure_devices()


def tells(session: ComputeSession, device: AgentDevice, mem_bytes: int) -> None:
    kernel = session.kernels.get()
    KernelUsage.objects.update_or_create(
        kernel=kernel, defaults={"at": NOON, "own_device_mem": {str(device.pk): mem_bytes}}
    )


def test_devices_have_their_state_use_and_holders(
    place: Place, superadmin: User, django_assert_num_queries: Any
) -> None:
    whole, one, other = run_on(place, 0), run_on(place, 1, gpu=0.5), run_on(place, 1, gpu=0.25)
    device_does(place, 0, 90, 40 * GIB)
    device_does(place, 1, 10, 8 * GIB)
    devices = devices_of(place.agent)
    tells(one, devices[1], 3 * GIB)
    AgentDevice.objects.filter(pk=devices[2].pk).update(
        withheld="administrator", withheld_because="Fan is loud."
    )
    AgentDevice.objects.filter(pk=devices[3].pk).update(is_present=False)
    measure()
    with clock.frozen_at(NOON), django_assert_num_queries(1):
        found = present_devices(actor_for(superadmin))
    states = [DeviceState.HELD, DeviceState.SHARED, DeviceState.ILL, DeviceState.ABSENT]
    assert [device.state for device in found] == states
    assert [(device.percent, device.mem_percent) for device in found] == [
        (90, 50),
        (10, 10),
        (None, None),
        (None, None),
    ]
    assert [[holder.session_id for holder in device.holders] for device in found[:2]] == [
        [whole.pk],
        [one.pk, other.pk],
    ]
    assert [(holder.milli, holder.mem_bytes) for holder in found[1].holders] == [(500, 3 * GIB), (250, None)]
    with clock.frozen_at(NOON + timedelta(minutes=2)):
        assert [device.is_measured for device in present_devices(actor_for(superadmin))] == [False] * 4


def test_others_learn_only_of_their_own_sessions(place: Place, people: Any) -> None:
    run_on(place, 0)
    own = present_devices(actor_for(place.owner), agent_id=place.agent.pk)
    assert own[0].holders[0].name is not None
    [foreign] = present_devices(actor_for(people.stranger), agent_id=place.agent.pk)[0].holders
    assert (foreign.session_id, foreign.name, foreign.milli) == (None, None, 1000)


def test_notable_are_held_and_idle_busiest_and_hottest_ones(place: Place, superadmin: User) -> None:
    run_on(place, 0), run_on(place, 1)
    run_on(place, 2, gpu=0.5), run_on(place, 2, gpu=0.5)
    device_does(place, 0, 0, 70 * GIB)
    device_does(place, 1, 95)
    device_does(place, 2, 0)
    device_does(place, 3, 1)
    for minutes in range(17):
        measure(minutes)
    with clock.frozen_at(NOON + timedelta(minutes=16)):
        actor = actor_for(superadmin)
        assert [device.index for device in top_devices(actor, Top.WASTED)] == [0]
        assert [device.index for device in top_devices(actor, Top.BUSIEST)][:2] == [1, 3]
        assert top_devices(actor, Top.HOTTEST) == []
        assert top_devices(actor_for(place.owner), Top.BUSIEST) == []


def test_a_session_sees_the_series_of_its_own_devices(place: Place, superadmin: User) -> None:
    with clock.frozen_at(NOON):
        session = run_on(place, 1, gpu=0.5)
    device_does(place, 0, 90)
    for percent in (10, 30):
        device_does(place, 1, percent, GIB)
        measure(percent / 60)
    tells(session, devices_of(place.agent)[1], GIB // 2)
    with clock.frozen_at(NOON + timedelta(minutes=1)):
        told = session_device_metrics(with_parts(session), Window.QUARTER)
        [device] = told["devices"]
        assert (device["name"], device["share_milli"], device["own_mem_bytes"]) == ("gpu 1", 500, GIB // 2)
        assert (device["percent"], device["mem_bytes"], device["celsius"]) == (
            [10, 30],
            [GIB, GIB],
            [None, None],
        )
        machine = agent_device_metrics(actor_for(superadmin), place.agent, MachineWindow.HOUR)
    assert [device["percent"] for device in machine["devices"]] == [[90, 90], [10, 30], [], []]
    assert session_device_metrics(with_parts(place.run()), Window.ALL)["devices"] == []


def test_memory_on_a_shared_device_is_told_by_the_processes_of_each_session(place: Place) -> None:
    one, other, alone = run_on(place, 1, gpu=0.5), run_on(place, 1, gpu=0.25), run_on(place, 0)
    processes = (DeviceProcess(11, 2 * GIB), DeviceProcess(12, GIB), DeviceProcess(99, 5 * GIB))
    use = DeviceUse(device_id="gpu-1", percent=5, mem_bytes=8 * GIB, processes=processes)
    place.runtime.accelerators.use(use)
    place.runtime.pids[one.kernels.get().container_name] = {10, 11, 12}
    place.runtime.pids[alone.kernels.get().container_name] = {99}
    measure()
    with clock.frozen_at(NOON):
        measure_sessions()
    device = str(devices_of(place.agent)[1].pk)
    told = [KernelUsage.objects.get(kernel__session=each).own_device_mem for each in (one, other, alone)]
    assert told == [{device: 3 * GIB}, {device: 0}, {}]
