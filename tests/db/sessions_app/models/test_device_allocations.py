"""The database refuses to allocate a device, or a share of it, twice."""

import pytest
from django.db import IntegrityError, transaction

from agents.machines.accelerators import write_devices
from agents.models import AgentDevice
from sessions_app.models import Kernel, KernelAllocation
from tests.doubles.accelerators import MockDiscovery
from tests.factories_devices import devices_of, give_devices, occupied_devices
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db


@pytest.fixture
def place() -> Place:
    made = make_place()
    give_devices(made.agent, 2)
    return made


def _allocate(
    place: Place, amount: int, devices: list[AgentDevice], agent: object = None
) -> KernelAllocation:
    kernel = Kernel.objects.create(session=place.enqueue(), role="sub", agent=place.agent)
    return KernelAllocation.objects.create(
        kernel=kernel,
        agent=agent or place.agent,
        slot_name="gpu",
        amount=amount,
        devices=[device.pk for device in devices],
    )


def test_devices_are_occupied_by_what_holds_them_and_free_when_it_is_gone(place: Place) -> None:
    first, second = devices_of(place.agent)
    part = _allocate(place, 250, [first])
    other = _allocate(place, 750, [first])
    whole = _allocate(place, 1000, [second])
    assert occupied_devices(place.agent) == [1000, 1000]

    part.delete()
    whole.delete()
    assert occupied_devices(place.agent) == [750, 0]
    both_at_once = KernelAllocation.objects.filter(pk=other.pk)
    both_at_once.delete()
    assert occupied_devices(place.agent) == [0, 0]


def test_several_devices_are_allocated_whole(place: Place) -> None:
    _allocate(place, 2000, devices_of(place.agent))
    assert occupied_devices(place.agent) == [1000, 1000]


@pytest.mark.parametrize(
    ("amount", "held"), [(1000, [0]), (501, [0]), (2000, [0, 1]), (2000, [1, 1]), (1500, [0, 1]), (1500, [1])]
)
def test_device_is_never_over_allocated(place: Place, amount: int, held: list[int]) -> None:
    devices = devices_of(place.agent)
    _allocate(place, 500, [devices[0]])
    with pytest.raises(IntegrityError), transaction.atomic():
        _allocate(place, amount, [devices[number] for number in held])
    assert occupied_devices(place.agent) == [500, 0]


def test_device_is_allocated_through_its_own_agent_only(place: Place) -> None:
    other = make_place()
    foreign = give_devices(other.agent, 1)
    with pytest.raises(IntegrityError, match="does not have"), transaction.atomic():
        _allocate(place, 500, foreign)
    unknown = AgentDevice(pk=10**9)
    with pytest.raises(IntegrityError, match="does not have"), transaction.atomic():
        _allocate(place, 500, [unknown])


def test_missing_device_is_not_allocated_and_can_be_released(place: Place) -> None:
    first, _ = devices_of(place.agent)
    held = _allocate(place, 500, [first])
    AgentDevice.objects.update(is_present=False)
    with pytest.raises(IntegrityError), transaction.atomic():
        _allocate(place, 500, [first])
    held.delete()
    assert occupied_devices(place.agent) == [0, 0]


def test_what_names_no_devices_counts_as_an_amount_alone(place: Place) -> None:
    _allocate(place, 1500, [])
    assert occupied_devices(place.agent) == [0, 0]
    assert place.occupied()["gpu"] == 1500


def test_missing_devices_keep_their_row() -> None:
    place = make_place()
    assert write_devices(place.agent, MockDiscovery(3).discover())
    assert not write_devices(place.agent, MockDiscovery(3).discover())
    assert not write_devices(place.agent, (), unknown=["mock"])
    place.agent.slots.create(slot_name="mock", capacity=3000)
    *_, last = devices_of(place.agent)
    kernel = Kernel.objects.create(session=place.enqueue(), role="sub", agent=place.agent)
    KernelAllocation.objects.create(
        kernel=kernel, agent=place.agent, slot_name="mock", amount=500, devices=[last.pk]
    )

    assert write_devices(place.agent, MockDiscovery(1).discover())
    present = [(each.index, each.is_present) for each in devices_of(place.agent)]
    assert present == [(0, True), (1, False), (2, False)]
    assert not write_devices(place.agent, MockDiscovery(1).discover())

    assert write_devices(place.agent, MockDiscovery(3).discover())
    assert [(each.index, each.is_present, each.occupied) for each in devices_of(place.agent)] == [
        (0, True, 0),
        (1, True, 0),
        (2, True, 500),
    ]
