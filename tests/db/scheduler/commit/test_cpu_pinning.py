"""CPU cores of a container, from placement to start."""

import pytest

from agents.models import Agent
from scheduler.tick import run_tick
from sessions_app.launch.launcher import build_kernel_plan
from sessions_app.models import ComputeSession, Kernel, KernelAllocation
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db


@pytest.fixture
def place() -> Place:
    made = make_place(cpu_milli=4000)
    Agent.objects.filter(pk=made.agent.pk).update(data={"cores": 4})
    return made


def test_a_container_starts_on_the_cores_that_it_holds(place: Place) -> None:
    session = place.enqueue(resources={"cpu": 2, "mem": "1g"})
    run_tick(place.group.pk)
    held = KernelAllocation.objects.filter(kernel__session=session)
    assert {each.slot_name: each.cpuset for each in held} == {"cpu": "0-1", "mem": ""}
    assert build_kernel_plan(session, session.kernels.get()).cpuset == "0-1"


def test_so_do_elements_of_an_array(place: Place) -> None:
    place.enqueue(resources={"cpu": 2, "mem": "1g"})
    sweep = place.enqueue(type="batch", command="true", array="1-2", resources={"cpu": 1, "mem": "1g"})
    run_tick(place.group.pk)
    elements = ComputeSession.objects.filter(array=sweep.array)
    assert sorted(build_kernel_plan(each, each.kernels.get()).cpuset for each in elements) == ["2", "3"]


def test_cores_of_ended_sessions_are_free(place: Place) -> None:
    session = place.run(resources={"cpu": 4, "mem": "1g"})
    place.end(session)
    assert Kernel.objects.get(session=session).cpuset == ""
    after = place.run(resources={"cpu": 1, "mem": "1g"})
    assert after.kernels.get().cpuset == "0"
