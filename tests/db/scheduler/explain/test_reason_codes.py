"""Every reason code of a pending session can occur, with a message that has its numbers."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.core.limits import Level
from agents.core.states import AgentState
from agents.machines.withholding import release_devices, withhold_devices
from agents.models import Agent, AgentImage, AgentSlot, ResourceGroup, Withheld
from agents.reservations.service import reserve_agents
from agents.resource_groups.service import update_resource_group
from common import clock
from common.actors import SYSTEM
from common.errors import LimitExceeded
from images.models import ContainerImage
from scheduler.engine import ReasonCode
from scheduler.tick import run_tick
from sessions_app.core.queue_options import Hold
from sessions_app.models import ComputeSession
from tests.db.accounts.budgets.test_budgets import budget
from tests.factories_devices import devices_of, give_devices
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
HALF, ALL = {"cpu": 4, "mem": "1g"}, {"cpu": 8, "mem": "1g"}


def no_agents(place: Place) -> ComputeSession:
    session = place.enqueue()
    Agent.objects.update(state=AgentState.DRAINING.value)
    return session


def never_fits(place: Place) -> ComputeSession:
    session = place.enqueue(resources=ALL)
    AgentSlot.objects.filter(slot_name="cpu").update(capacity=4000)
    return session


def devices_withheld(place: Place) -> ComputeSession:
    ids = [device.pk for device in give_devices(place.agent)]
    withhold_devices(place.agent.pk, ids, kind=Withheld.QUARANTINE, because="Xid 79")
    return place.enqueue(resources={"cpu": 1, "mem": "1g", "gpu": 2})


def storage_unreached(place: Place) -> ComputeSession:
    session = place.enqueue()
    ComputeSession.objects.update(storage_hosts=["near", "far"])
    Agent.objects.update(storage_hosts=["near"])
    return session


def no_such_device(place: Place) -> ComputeSession:
    give_devices(place.agent)
    Agent.objects.update(device_mem_bytes=2**30)
    session = place.enqueue(resources={"cpu": 1, "mem": "1g", "gpu": 1})
    ComputeSession.objects.update(device_mem_bytes=2**31)
    return session


def no_capacity(place: Place) -> ComputeSession:
    place.run(resources=HALF)
    return place.enqueue(resources=ALL)


def budget_spent(place: Place) -> ComputeSession:
    session = place.enqueue()
    budget(place, level=Level.USER, owner_id=place.owner.pk, amount=Decimal(0))
    return session


def limit_reached(place: Place) -> ComputeSession:
    limit(place.owner, max_slots={"cpu": 4000})
    place.run(resources=HALF)
    return place.enqueue()


def fragmented(place: Place) -> ComputeSession:
    other = make_place()
    Agent.objects.filter(pk=other.agent.pk).update(resource_group=place.group)
    for _ in range(2):
        place.place(resources={"cpu": 5, "mem": "1g"})
    return place.enqueue(resources={"cpu": 6, "mem": "1g"})


def kept_free(place: Place) -> ComputeSession:
    ResourceGroup.objects.update(patience_s=0)
    place.run(resources=HALF)
    place.enqueue(resources=ALL)
    return place.enqueue(resources=HALF)


def priority(place: Place) -> ComputeSession:
    ResourceGroup.objects.update(patience_s=0)
    place.run(resources=HALF)
    first = place.enqueue(resources=ALL)
    ComputeSession.objects.filter(pk=first.pk).update(priority=10)
    return place.enqueue(resources=HALF)


def placement_rule(place: Place) -> ComputeSession:
    asked = {
        "placement_group": "web",
        "placement_rule": "strict_spread",
        "resources": {"cpu": 1, "mem": "64m"},
    }
    place.place(**asked)
    return place.enqueue(**asked)


def making_room(place: Place) -> ComputeSession:
    ResourceGroup.objects.update(preemptible_priority=0, preemption_after_s=0)
    place.run(resources=HALF)
    session = place.enqueue(resources=ALL)
    ComputeSession.objects.filter(pk=session.pk).update(priority=10)
    return session


def group_paused(place: Place) -> ComputeSession:
    session = place.enqueue()
    ResourceGroup.objects.update(is_active=False)
    return session


def reservation(place: Place) -> ComputeSession:
    now = clock.now()
    reserve_agents(
        actor=SYSTEM,
        group_id=place.group.pk,
        name="Course",
        agents=[place.agent.name],
        starts_at=None,
        ends_at=now + timedelta(hours=1),
    )
    return place.enqueue()


def start_time(place: Place) -> ComputeSession:
    return place.enqueue(start_at=(clock.now() + timedelta(hours=1)).isoformat())


def dependency(place: Place) -> ComputeSession:
    first = place.run(type="batch", command="true")
    return place.enqueue(dependencies=[{"session": str(first.pk)}])


def group_closed(place: Place) -> ComputeSession:
    session = place.enqueue()
    update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"session_types": ["batch"]})
    return session


def array_limit(place: Place) -> ComputeSession:
    first = place.enqueue(type="batch", command="true", array="1-2%1")
    return ComputeSession.objects.get(array=first.array, array_index=2)


def image_missing(place: Place) -> ComputeSession:
    AgentImage.objects.filter(agent=place.agent).update(reference="other:1")
    ContainerImage.objects.update(created_at=clock.now() - timedelta(hours=1))
    return place.enqueue()


WAYS: tuple[Callable[[Place], ComputeSession], ...] = (
    no_agents, never_fits, devices_withheld, storage_unreached, no_such_device, no_capacity, budget_spent, limit_reached, fragmented, kept_free, priority, making_room,
    group_paused,
    placement_rule, reservation, start_time, dependency, group_closed, array_limit, image_missing,
)  # fmt: skip
SAID = {
    "no_agents": "takes x86_64 sessions now",
    "never_fits": "8 cores on one agent",
    "devices_withheld": "could run it have 2 gpu that are in quarantine",
    "storage_unreached": "reaches the storage host of its folders: far. It starts when one does",
    "no_such_device": "with 2 GiB of memory each, but the largest",
    "no_capacity": "Waits for 8 cores",
    "budget_spent": "is used up",
    "limit_reached": "have 4 cores of 4 cores allocated",
    "fragmented": "6 cores free in total, but the agent with the most room only 3 cores",
    "kept_free": "reserved for a session that is ahead",
    "priority": "a higher priority (1) are ahead",
    "placement_rule": "room for it now (1) run others of its placement group",
    "making_room": "lower priority are being ended",
    "group_paused": "paused",
    "reservation": "(1) are reserved for others",
    "group_closed": "is not open to it any more",
    "image_missing": "No machine that answers has the image",
    "start_time": "Waits for its start time",
    "dependency": "Waits",
    "array_limit": "at most 1 of them may run at once",
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_waiting_session_says_why_with_the_numbers(way: Callable[[Place], ComputeSession]) -> None:
    place = make_place()
    session = way(place)
    run_tick(place.group.pk)
    session.refresh_from_db()
    assert (session.status, session.status_reason) == ("PENDING", way.__name__)
    assert SAID[way.__name__] in str(session.status_message)


def test_containers_that_need_agents_of_their_own_name_the_host_that_too_few_reach() -> None:
    place = make_place()
    Agent.objects.create(
        name="second", address="simulated://second", resource_group=place.group, architecture="x86_64"
    )
    session = place.enqueue(cluster_size=2, cluster_mode="anywhere")
    ComputeSession.objects.update(storage_hosts=["far"], gang="spread")
    Agent.objects.filter(pk=place.agent.pk).update(storage_hosts=["far"])
    run_tick(place.group.pk)
    session.refresh_from_db()
    assert session.status_reason == "storage_unreached"
    assert "too few of resource group" in str(session.status_message)
    assert "of its folders: far. It starts when enough do" in str(session.status_message)


def test_session_that_waits_for_a_quarantined_device_starts_when_it_is_released() -> None:
    place = make_place()
    waiting = devices_withheld(place)
    with pytest.raises(LimitExceeded, match="has 1 core, 1 GiB, 3 gpu"):
        place.enqueue(resources={"cpu": 1, "mem": "1g", "gpu": 3})
    run_tick(place.group.pk)
    assert place.fresh(waiting).status == "PENDING"
    ids = [device.pk for device in devices_of(place.agent)]
    release_devices(place.agent.pk, ids, kind=Withheld.QUARANTINE)
    run_tick(place.group.pk)
    assert place.fresh(waiting).status == "SCHEDULED"


def test_no_code_is_left_out() -> None:
    """No request can name an agent yet; what the engine says of one is in tests/unit/scheduler/explain/test_messages.py."""
    known = {*ReasonCode, *Hold} - {ReasonCode.AGENT_UNAVAILABLE, Hold.NOTHING}
    assert {way.__name__ for way in WAYS} == set(SAID) == {str(code) for code in known}
