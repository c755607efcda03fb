"""Use and allocations of all sessions of a machine, over time."""

from datetime import timedelta

import pytest

from common import clock
from sessions_app.metrics.device_history import MachineWindow
from sessions_app.metrics.machine_history import STEP_OF_SAMPLES_S, agent_metrics
from sessions_app.models import ComputeSession, Kernel, KernelMetric
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
STEP = timedelta(seconds=STEP_OF_SAMPLES_S)


@pytest.fixture
def place() -> Place:
    return make_place()


def test_use_and_allocations_of_all_sessions_are_added_up(place: Place) -> None:
    now = clock.start_of(clock.now(), STEP_OF_SAMPLES_S)
    begin = now - 4 * STEP
    for cpu in (500, 1500):
        place.run(resources={"cpu": 1, "mem": "64m"})
        kernel = Kernel.objects.latest("session__created_at")
        ComputeSession.objects.filter(pk=kernel.session_id).update(started_at=begin)
        for at in (begin, begin + timedelta(seconds=10)):  # samples of one point are averaged
            KernelMetric.objects.create(kernel=kernel, span_s=10, at=at, cpu_milli=cpu, mem_bytes=10)
    with clock.frozen_at(now):
        told = agent_metrics(place.agent, MachineWindow.QUARTER)
    [machine] = told["kernels"]
    assert machine["at"][-4] == int(begin.timestamp())
    assert machine["limits"]["cpu_milli"] == place.agent.capacity["cpu"]
    assert machine["cpu_milli"][-5:] == [0, 2000, None, None, None]  # nothing runs; then not measured
    assert machine["mem_bytes"][-4] == 20
    assert machine["cpu_milli_held"][-5:] == [0, 2000, 2000, 2000, 2000]
    assert machine["mem_bytes_held"][-1] == 2 * 64 * 2**20


def test_short_sessions_count_by_their_part_of_a_long_point(place: Place) -> None:
    place.run(resources={"cpu": 1, "mem": "64m"})
    kernel = Kernel.objects.get()
    now = clock.now()
    at = clock.start_of(now - timedelta(days=3), 7200)
    ComputeSession.objects.update(started_at=at, ended_at=at + timedelta(minutes=30), status="TERMINATED")
    KernelMetric.objects.create(kernel=kernel, span_s=900, at=at, cpu_milli=800, mem_bytes=8)
    KernelMetric.objects.create(kernel=kernel, span_s=900, at=at + timedelta(minutes=15), cpu_milli=800)
    [machine] = agent_metrics(place.agent, MachineWindow.MONTH)["kernels"]
    index = machine["at"].index(int(at.timestamp()))
    assert (machine["cpu_milli"][index], machine["cpu_milli_held"][index]) == (200, 250)
    assert len(machine["at"]) == 360
