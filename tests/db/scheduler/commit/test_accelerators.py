"""Assignment of accelerators to sessions: request, tick, rows, and release."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from accounts.limits import scope_ids
from accounts.models import Project
from agents.capacity.free_capacity import SessionRequirements, groups_with_capacity
from agents.models import Agent, AgentDevice, AgentSlot, SharingRule
from agents.selectors import slot_capacities
from common import clock
from common.errors import InvalidInput
from common.values.resources import ResourceSlots
from scheduler.commit.plan_commit import GroupBusy, StalePlan, commit_plan
from scheduler.engine import plan
from scheduler.snapshot.reader import read_snapshot
from scheduler.tick import run_tick
from sessions_app.launch.terminator import end_session
from sessions_app.models import ComputeSession, KernelAllocation
from sessions_app.termination.service import terminate_session
from tests.factories import actor_for, make_project, make_user
from tests.factories_devices import devices_of, give_devices, occupied_devices
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db


@pytest.fixture
def place() -> Place:
    made = make_place()
    give_devices(made.agent, 2)
    return made


def ask(place: Place, gpu: float, **changes: object) -> ComputeSession:
    return place.enqueue(resources={"cpu": 1, "mem": "1g", "gpu": gpu}, **changes)


def indexes_of(session: ComputeSession) -> list[int]:
    [ids] = KernelAllocation.objects.filter(kernel__session=session, slot_name="gpu").values_list(
        "devices", flat=True
    )
    return [device.index for device in AgentDevice.objects.filter(pk__in=ids).order_by("pk")]


def test_parts_share_a_device_and_whole_ones_are_held_alone(place: Place) -> None:
    sessions = [ask(place, gpu) for gpu in (0.5, 1, 0.5)]
    run_tick(place.group.pk)
    first, whole, second = (indexes_of(session) for session in sessions)
    assert first == second != whole
    assert occupied_devices(place.agent) == [1000, 1000]


def test_session_waits_for_a_set_of_devices_and_says_so_while_others_start(place: Place) -> None:
    """Gaudis 1 and 2 are free, which are of different pairs; each starts alone."""
    AgentSlot.objects.create(agent=place.agent, slot_name="gaudi", capacity=2000)
    AgentDevice.objects.bulk_create(
        AgentDevice(
            agent=place.agent, slot_name="gaudi", device_id=f"g{module}", index=module, vendor="gaudi", facts={"module": module}
        )
        for module in (1, 2)
    )  # fmt: skip
    pair, alone = (place.enqueue(resources={"cpu": 1, "mem": "1g", "gaudi": count}) for count in (2, 1))
    run_tick(place.group.pk)
    waiting = place.fresh(pair)
    assert (waiting.status, waiting.status_reason) == ("PENDING", "fragmented")
    assert "linked as a set" in str(waiting.status_message)
    assert place.fresh(alone).status == "SCHEDULED"
    assert not KernelAllocation.objects.filter(kernel__session=pair).exists()

    place.end(place.fresh(alone))
    AgentDevice.objects.filter(device_id="g1").update(facts={"module": 3})
    run_tick(place.group.pk)
    assert place.fresh(pair).status == "SCHEDULED"


def test_many_sessions_that_wait_for_a_set_hold_up_nobody(place: Place) -> None:
    AgentSlot.objects.create(agent=place.agent, slot_name="gaudi", capacity=2000)
    AgentDevice.objects.bulk_create(
        AgentDevice(
            agent=place.agent, slot_name="gaudi", device_id=f"g{module}", index=module, vendor="gaudi", facts={"module": module}
        )
        for module in (1, 2)
    )  # fmt: skip
    pairs = [place.enqueue(resources={"cpu": 1, "mem": "1g", "gaudi": 2}) for _ in range(4)]
    other = place.enqueue()
    run_tick(place.group.pk)
    assert place.fresh(other).status == "SCHEDULED"
    assert {place.fresh(pair).status_reason for pair in pairs} == {"fragmented"}


def test_cores_of_a_session_are_near_its_device(place: Place) -> None:
    numa_cores = {"0": "0-3", "1": "4-7"}
    place.agent.data |= {"cores": 8, "numa_cores": numa_cores}
    place.agent.save()
    AgentDevice.objects.filter(agent=place.agent).update(numa_node=1)
    for session, cores in ((ask(place, 1), "4"), (place.enqueue(), "0")):
        run_tick(place.group.pk)
        assert session.kernels.get().cpuset == cores


def test_two_halves_of_two_devices_are_no_whole_one(place: Place) -> None:
    first, other, second = (ask(place, gpu) for gpu in (0.75, 0.75, 0.5))
    run_tick(place.group.pk)
    assert occupied_devices(place.agent) == [750, 750]
    waiting = ComputeSession.objects.get(pk=second.pk)
    assert waiting.status_reason == "fragmented"
    assert "0.5 gpu free in total, but of no device more than 0.25 gpu" in str(waiting.status_message)

    place.end(place.fresh(first))
    run_tick(place.group.pk)
    assert len(indexes_of(second)) == 1
    assert occupied_devices(place.agent) == [500, 750]
    whole = ask(place, 1)
    place.end(place.fresh(other))
    run_tick(place.group.pk)
    assert indexes_of(whole) == [1]


def test_what_is_free_in_parts_is_said_in_numbers(place: Place) -> None:
    first, second, *_ = [ask(place, gpu) for gpu in (0.6, 0.6, 0.4, 0.4)]
    run_tick(place.group.pk)
    for session in (first, second):
        place.end(place.fresh(session))
    assert occupied_devices(place.agent) == [400, 400]

    whole = ask(place, 1)
    run_tick(place.group.pk)
    whole = place.fresh(whole)
    assert whole.status_reason == "fragmented"
    assert "1.2 gpu free in total" in str(whole.status_message)
    assert "no agent with room for the rest has more than 0 gpu whole" in str(whole.status_message)


def test_commit_and_end_leave_every_device_as_it_was(place: Place) -> None:
    sessions = [place.run(resources={"cpu": 1, "mem": "1g", "gpu": gpu}) for gpu in (0.25, 0.5, 1)]
    assert occupied_devices(place.agent) == [750, 1000]
    for session in sessions:
        place.end(session)
    assert occupied_devices(place.agent) == [0, 0]


def test_devices_that_belong_together_are_given_together(place: Place) -> None:
    made = make_place(cpu_milli=64000)
    give_devices(made.agent, 8)  # joined by fours
    one, two, four = (ask(made, gpu) for gpu in (1, 2, 4))
    run_tick(made.group.pk)
    assert (indexes_of(one), indexes_of(two), indexes_of(four)) == ([0], [1, 2], [4, 5, 6, 7])


def test_a_device_that_is_gone_is_given_to_nobody(place: Place) -> None:
    AgentDevice.objects.filter(agent=place.agent, index=0).update(is_present=False)
    first, second = ask(place, 1), ask(place, 0.5)
    run_tick(place.group.pk)
    assert indexes_of(first) == [1]
    assert place.fresh(second).status == "PENDING"


def test_what_changed_since_the_snapshot_makes_the_plan_stale(place: Place) -> None:
    ask(place, 2)
    told = read_snapshot(place.group.pk)
    AgentDevice.objects.filter(agent=place.agent, index=0).update(is_present=False)
    with pytest.raises(StalePlan, match="2 whole devices"):
        commit_plan(plan(told, clock.now()))
    assert occupied_devices(place.agent) == [0, 0]


def test_devices_and_their_rules_are_read_by_two_queries_and_only_where_there_are_any(
    place: Place, django_assert_num_queries
) -> None:
    plain = make_place()
    plain.enqueue()
    ask(place, 0.5)
    with django_assert_num_queries(6):
        read_snapshot(plain.group.pk)
    with django_assert_num_queries(8):
        told = read_snapshot(place.group.pk)
    assert [(each.slot_name, each.total, each.whole) for each in told.agents[0].devices] == [("gpu", 2, 2)]


def test_a_part_waits_until_the_group_isolates_parts_as_well_as_it_asks(place: Place) -> None:
    session = ask(place, 0.5)
    whole = ask(place, 1)
    ComputeSession.objects.update(isolation="server")
    SharingRule.objects.create(group=place.group, model="Other", mode="mps")
    run_tick(place.group.pk)
    waiting = ComputeSession.objects.get(pk=session.pk)
    assert (waiting.status_reason, len(indexes_of(whole))) == ("no_such_device", 1)
    assert "not isolated as well" in str(waiting.status_message)

    Agent.objects.filter(pk=place.agent.pk).update(device_model="Other")
    run_tick(place.group.pk)
    assert len(indexes_of(session)) == 1


def ask_quarter(place: Place, project: Project) -> ComputeSession:
    """Ask for the part of a device that MPS gives, as a member of the project."""
    return ask(place, 0.25, project=project.name, by=make_user(member_of=project))


def test_sessions_of_one_project_alone_share_a_device_by_mps(place: Place) -> None:
    """Those of others get a device that is wholly free, or wait, say why, and start when one is."""
    SharingRule.objects.create(group=place.group, mode="mps", smallest_share=250)
    other, stranger = make_project(place.project.domain), make_project(place.project.domain)
    first, second, third = (ask_quarter(place, each) for each in (place.project, other, place.project))
    run_tick(place.group.pk)
    run_tick(place.group.pk)
    assert (indexes_of(first), indexes_of(second), indexes_of(third)) == ([0], [1], [0])
    devices = devices_of(place.agent)
    assert [device.sharing_project for device in devices] == [place.project, other]
    row = KernelAllocation(
        kernel=first.kernels.get(), agent=place.agent, slot_name="gpu", amount=250, devices=[devices[1].pk]
    )
    KernelAllocation.objects.filter(kernel=row.kernel, slot_name="gpu").delete()
    with pytest.raises(IntegrityError, match="another project shares"), transaction.atomic():
        row.save()

    waiting = ask_quarter(place, stranger)
    run_tick(place.group.pk)
    told = place.fresh(waiting)
    assert (told.status, told.status_reason) == ("PENDING", "no_such_device")
    assert "no other project has parts" in str(told.status_message)
    terminate_session(actor=actor_for(second.owner), session_id=second.pk)
    end_session(second.pk)
    run_tick(place.group.pk)
    assert indexes_of(waiting) == [1]
    assert devices_of(place.agent)[1].sharing_project == stranger


def test_plan_that_mixes_projects_on_one_device_starts_those_of_one(place: Place) -> None:
    SharingRule.objects.create(group=place.group, mode="mps", smallest_share=250)
    AgentDevice.objects.filter(agent=place.agent, index=1).update(is_present=False)
    other = make_project(place.project.domain)
    sessions = [ask_quarter(place, project) for project in (place.project, other) * 2]
    run_tick(place.group.pk)
    assert [place.fresh(session).status for session in sessions] == ["SCHEDULED", "PENDING"] * 2
    assert "no other project has parts" in str(place.fresh(sessions[1]).status_message)


def test_room_at_once_is_what_devices_have(place: Place) -> None:
    actor = actor_for(place.owner)

    def most() -> int:
        return slot_capacities(actor, group_id=place.group.pk)["gpu"].most_free

    def has_room_for(gpu: int, **demands: object) -> bool:
        slots = ResourceSlots({"cpu": 1000, "gpu": gpu})
        sought = SessionRequirements(slots, "x86_64", scope_ids(actor), timedelta(days=7), **demands)
        return place.group.pk in groups_with_capacity([place.group.pk], sought)

    assert (most(), has_room_for(2000)) == (2000, True)
    assert has_room_for(2000, linked_devices=True)
    assert not has_room_for(1000, device_mem_bytes=2**40)
    assert not has_room_for(1000, device_api_version=99000)
    AgentDevice.objects.filter(index=1).update(link_group=9)
    assert [has_room_for(gpu, linked_devices=True) for gpu in (1000, 2000)] == [True, False]
    for gpu in (0.6, 0.7):
        ask(place, gpu)
    run_tick(place.group.pk)
    assert most() == 400
    assert [has_room_for(gpu) for gpu in (300, 400, 500, 1000)] == [True, True, False, False]


def test_room_at_once_is_of_one_machine_whether_its_devices_are_known_or_not(place: Place) -> None:
    """What is free in parts on one machine is no room of another one, of whose devices nobody knows."""
    ask(place, 0.5), ask(place, 1)
    run_tick(place.group.pk)
    plain = Agent.objects.create(
        name="plain", address="simulated://plain", resource_group=place.group, architecture="x86_64"
    )
    AgentSlot.objects.create(agent=plain, slot_name="gpu", capacity=4000, occupied=1000)
    assert slot_capacities(actor_for(place.owner), group_id=place.group.pk)["gpu"].most_free == 3000


@pytest.mark.parametrize(
    ("gpu", "sentence"),
    [(1.5, "ask for a whole number or for less than 1, not 1.5 gpu"), (2.001, "2.001 gpu")],
)
def test_more_than_one_device_is_asked_for_in_whole_ones(place: Place, gpu: float, sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        ask(place, gpu)
    assert sentence in str(refused.value.fields["resources.gpu"])


def test_parts_of_two_kinds_of_device_are_refused(place: Place) -> None:
    with pytest.raises(InvalidInput) as refused:
        place.enqueue(resources={"cpu": 1, "mem": "1g", "gpu": 0.5, "npu": 0.5})
    assert refused.value.fields == {
        "resources.npu": ["A session gets accelerators of one kind: gpu or npu, not both."]
    }


@pytest.mark.django_db(transaction=True)
def test_two_ticks_at_once_give_no_device_twice() -> None:
    place = make_place(cpu_milli=64000)
    give_devices(place.agent, 4)
    for number in range(12):
        ask(place, (0.5, 1, 0.25)[number % 3])

    def tick(_: int) -> None:
        try:
            run_tick(place.group.pk)
        except (GroupBusy, StalePlan):
            pass
        finally:
            connection.close()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(tick, range(3)))
    run_tick(place.group.pk)
    held = dict.fromkeys((device.pk for device in devices_of(place.agent)), 0)
    for amount, ids in KernelAllocation.objects.filter(slot_name="gpu").values_list("amount", "devices"):
        for device_id in ids:
            held[device_id] += amount // len(ids)
    assert list(held.values()) == occupied_devices(place.agent)
    assert sum(held.values()) == 4000


def test_linked_devices_are_of_one_link_group_or_the_session_waits() -> None:
    """Devices are linked in fours; each tick decides anew, so no plan is repeated for ever."""
    place = make_place()
    give_devices(place.agent, 8)
    AgentDevice.objects.filter(index__in=(0, 4)).update(withheld="quarantine")
    AgentSlot.objects.filter(agent=place.agent, slot_name="gpu").update(capacity=6000)
    four, three, one, other = (ask(place, gpu) for gpu in (4, 3, 1, 3))
    ComputeSession.objects.exclude(pk=one.pk).update(linked_devices=True)
    run_tick(place.group.pk)
    assert ComputeSession.objects.get(pk=four.pk).status_reason == "devices_withheld"
    assert indexes_of(three) == [1, 2, 3]
    assert len(indexes_of(one)) == 1
    waiting = ComputeSession.objects.get(pk=other.pk)
    assert waiting.status_reason == "no_capacity"

    place.end(place.fresh(one))
    run_tick(place.group.pk)
    assert indexes_of(other) == [5, 6, 7]


def test_a_plan_for_linked_devices_of_which_one_was_withheld_meanwhile_is_stale(place: Place) -> None:
    ComputeSession.objects.filter(pk=ask(place, 2).pk).update(linked_devices=True)
    decided = plan(read_snapshot(place.group.pk), clock.now())
    assert decided.placements
    AgentDevice.objects.filter(index=1).update(link_group=None)
    with pytest.raises(StalePlan):
        commit_plan(decided)
    run_tick(place.group.pk)
    assert ComputeSession.objects.get().status_reason == "no_such_device"
