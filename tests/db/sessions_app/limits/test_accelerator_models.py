"""Sessions that request accelerators of one model."""

from dataclasses import replace

import pytest

from agents.accelerators.base import AcceleratorDevice
from agents.core.states import AgentState
from agents.machines.discovery import record_discovery
from agents.machines.probing import Discovery
from agents.models import Agent, AgentSlot
from common.errors import InvalidInput, LimitExceeded, NotFound
from scheduler.tick import run_tick
from sessions_app.admission.forecast import forecast_session
from sessions_app.core.request import parse_request
from sessions_app.models import ComputeSession
from tests.factories import actor_for
from tests.factories_scheduler import Cluster
from tests.factories_sessions import GIB, Place, make_place

pytestmark = pytest.mark.django_db
ASKED = {"cpu": 1, "mem": "1g", "cuda": 1}


@pytest.fixture
def place() -> Place:
    """With two machines that have accelerators, of two models, beside one that has none."""
    place = make_place()
    cluster = Cluster(place.group, place.project, place.owner, place.image)
    for name in ("old", "new"):
        agent = cluster.add_agent({"cpu": 4000, "mem": 8 * GIB, "cuda": 1000})
        Agent.objects.filter(pk=agent.pk).update(device_model=name)
    return place


def model_of(session: ComputeSession) -> str:
    agent = session.kernels.get().agent
    return agent.device_model if agent else ""


@pytest.mark.parametrize("model", ["old", "new"])
def test_it_runs_where_accelerators_are_of_the_model_it_wants(place: Place, model: str) -> None:
    request = place.request(resources=ASKED, device_model=model)
    assert forecast_session(actor_for(place.owner), parse_request(request)).outlook.starts_now
    assert model_of(place.place(resources=ASKED, device_model=model)) == model
    waiting = place.place(resources=ASKED, device_model=model)
    assert (waiting.status_reason, model_of(waiting)) == ("no_capacity", "")
    assert model_of(place.place(resources=ASKED)) == {"old": "new", "new": "old"}[model]


def test_message_says_that_no_agent_of_the_model_is_available(place: Place) -> None:
    waiting = place.enqueue(resources=ASKED, device_model="new")
    Agent.objects.filter(device_model="new").update(state=AgentState.DRAINING.value)
    run_tick(place.group.pk)
    waiting.refresh_from_db()
    assert waiting.status_reason == "no_agents"
    assert "with new takes sessions now" in str(waiting.status_message)


def test_a_model_that_no_machine_has_is_refused_with_those_there_are(place: Place) -> None:
    with pytest.raises(NotFound, match="has the accelerators “odd”") as refused:
        place.enqueue(resources=ASKED, device_model="odd")
    assert refused.value.hint == "It has new, old."
    assert list(refused.value.fields) == ["device_model"]


def test_more_than_a_machine_with_the_model_has_is_refused(place: Place) -> None:
    AgentSlot.objects.filter(agent__device_model="old", slot_name="cuda").update(capacity=2000)
    with pytest.raises(LimitExceeded, match="with new has"):
        place.enqueue(resources={**ASKED, "cuda": 2}, device_model="new")
    assert place.enqueue(resources={**ASKED, "cuda": 2}, device_model="old").device_model == "old"


def test_a_model_of_no_accelerator_is_refused(place: Place) -> None:
    with pytest.raises(InvalidInput, match="asks for no accelerator"):
        place.enqueue(device_model="new")


def device(model: str, index: int = 0) -> AcceleratorDevice:
    return AcceleratorDevice(
        vendor="nvidia", slot_name="cuda", device_id=f"GPU-{index}", index=index, model=model, mem_bytes=GIB
    )


def test_a_machine_is_of_a_model_where_all_its_accelerators_are(place: Place) -> None:
    for models, told in ((["new", "new"], "new"), (["new", "old"], ""), ([], "")):
        devices = tuple(device(model, index) for index, model in enumerate(models))
        assert record_discovery(place.agent.pk, Discovery(devices=devices)).device_model == told


def test_slices_do_not_make_the_devices_of_a_machine_smaller(place: Place) -> None:
    part = replace(device("new MIG 1g.10gb", 1), parent_id="GPU-0", mem_bytes=GIB // 8)
    seen = record_discovery(place.agent.pk, Discovery(devices=(device("new"), part)))
    assert (seen.device_model, seen.device_mem_bytes) == ("new", GIB)
