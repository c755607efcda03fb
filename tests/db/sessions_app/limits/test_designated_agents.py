"""Sessions with a designated agent: required or preferred."""

import pytest

from agents.core.states import AgentState
from agents.machines import lifecycle as agent_lifecycle
from agents.machines.service import change_agent_state
from agents.models import AgentSlot
from agents.resource_groups.service import move_agent
from common.actors import SYSTEM
from common.errors import LimitExceeded, NotFound
from scheduler.tick import run_tick
from sessions_app.admission.forecast import forecast_session
from sessions_app.core.request import parse_request
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession
from tests.factories import actor_for
from tests.factories_scheduler import Cluster
from tests.factories_sessions import GIB, Place, make_place

pytestmark = pytest.mark.django_db


@pytest.fixture
def others(place: Place) -> list[str]:
    """Two more machines of the group, in the order in which they are taken."""
    cluster = Cluster(place.group, place.project, place.owner, place.image)
    return [cluster.add_agent({"cpu": 2000, "mem": 4 * GIB}).name for _ in range(2)]


def machine_of(session: ComputeSession) -> str:
    kernel = session.kernels.get()
    return kernel.agent.name if kernel.agent else ""


@pytest.mark.parametrize("chosen", [0, 1])
def test_it_runs_on_the_machine_that_was_chosen(place: Place, others: list[str], chosen: int) -> None:
    assert machine_of(place.place(designated_agent=others[chosen])) == others[chosen]


def test_those_that_come_one_after_the_other_run_on_the_machines_that_were_chosen(
    place: Place, others: list[str]
) -> None:
    for name in others:
        session = place.enqueue(designated_agent=name)
        run_tick(place.group.pk)
        assert machine_of(place.fresh(session)) == name


def test_it_waits_for_its_machine_though_others_have_room(place: Place, others: list[str]) -> None:
    whole = {"cpu": 2, "mem": "4g"}
    place.place(designated_agent=others[0], resources=whole)
    waiting = place.place(designated_agent=others[0])
    assert (waiting.status, waiting.status_reason) == (Status.PENDING, "no_capacity")
    elsewhere = place.place(designated_agent=others[0], may_run_elsewhere=True)
    assert machine_of(elsewhere) not in ("", others[0])


def test_message_says_that_designated_agent_is_unavailable(place: Place, others: list[str]) -> None:
    agent = place.group.agents.get(name=others[0])
    agent_lifecycle.transition(agent.pk, to=AgentState.LOST, actor=SYSTEM)
    waiting = place.place(designated_agent=others[0])
    assert (waiting.status, waiting.status_reason) == (Status.PENDING, "agent_unavailable")
    assert "It starts when that agent does." in str(waiting.status_message)
    assert place.place(designated_agent=others[0], may_run_elsewhere=True).status == Status.SCHEDULED


@pytest.mark.parametrize("is_retired", [False, True])
def test_message_says_that_designated_agent_left_the_group(
    place: Place, others: list[str], is_retired: bool
) -> None:
    waiting = place.enqueue(designated_agent=others[0])
    agent = place.group.agents.get(name=others[0])
    if is_retired:
        change_agent_state(actor=SYSTEM, agent_id=agent.pk, to=AgentState.RETIRED)
    else:
        move_agent(actor=SYSTEM, agent_id=agent.pk, group_id=make_place().group.pk)
    run_tick(place.group.pk)
    waiting = place.fresh(waiting)
    assert (waiting.status, waiting.status_reason) == (Status.PENDING, "agent_unavailable")
    assert "cannot run it any more" in str(waiting.status_message)


def test_check_names_the_designated_agent(place: Place, others: list[str]) -> None:
    for name in others:
        request = parse_request(place.request(designated_agent=name))
        assert forecast_session(actor_for(place.owner), request).outlook.agent == name


def test_a_machine_of_another_group_is_none_of_this(place: Place) -> None:
    other = make_place()
    with pytest.raises(NotFound, match="has no machine") as refused:
        place.enqueue(designated_agent=other.agent.name)
    assert refused.value.hint == f"It has {place.agent.name}."
    assert list(refused.value.fields) == ["designated_agent"]


def test_what_the_chosen_machine_could_never_hold_is_refused(place: Place, others: list[str]) -> None:
    large = {"cpu": 4, "mem": "1g"}
    with pytest.raises(LimitExceeded, match=rf"The machine “{others[0]}” has only 2 cores, 4 GiB"):
        place.enqueue(designated_agent=others[0], resources=large)
    assert (
        machine_of(place.place(designated_agent=others[0], may_run_elsewhere=True, resources=large))
        == place.agent.name
    )


def test_a_machine_of_another_architecture_is_refused(place: Place) -> None:
    cluster = Cluster(place.group, place.project, place.owner, place.image)
    odd = cluster.add_agent({"cpu": 2000, "mem": 4 * GIB})
    type(odd).objects.filter(pk=odd.pk).update(architecture="riscv64")
    with pytest.raises(LimitExceeded, match="is riscv64, and the image"):
        place.enqueue(designated_agent=odd.name)


def test_a_device_that_the_chosen_machine_lacks_is_refused(place: Place, others: list[str]) -> None:
    AgentSlot.objects.create(agent=place.agent, slot_name="cuda", capacity=1000)
    with pytest.raises(LimitExceeded, match="has only 2 cores, 4 GiB, 0 × NVIDIA GPU"):
        place.enqueue(designated_agent=others[0], resources={"cpu": 1, "mem": "1g", "cuda": 1})
