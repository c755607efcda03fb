"""Assignment of accelerators to sessions, by examples."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common.values.resources import MAX_AMOUNT, ResourceSlots
from scheduler.engine import (
    AgentView,
    DeviceShare,
    FreeDevices,
    Gang,
    GroupHost,
    PartlyFreeDevice,
    PendingSession,
    PlacementGroup,
    PlacementRule,
    Plan,
    Planner,
    PreemptibleAllocation,
    PreemptionRule,
    ReasonCode,
    Requirements,
    ReservationWindow,
    Rules,
    RunningAllocation,
    SlotDevices,
    Snapshot,
    plan,
)
from scheduler.engine.accelerators import (
    Device,
    DeviceTable,
    NoAllowedSet,
    NoSuchDevices,
    assign_devices,
    choose_allowed_set,
    choose_devices,
    most_for_one_kernel,
)
from scheduler.engine.capacity.tracker import CapacityTracker
from scheduler.engine.index.agent_index import AgentIndex
from scheduler.explain.messages import message_for

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def at(minute: int) -> datetime:
    return NOW + timedelta(minutes=minute)


def slots(gpu: int, cpu: int = 1, **more: int) -> ResourceSlots:
    return ResourceSlots({"cpu": cpu * 1000, "gpu": gpu, **more})


def agent(number: int, size: int, *shared: int, whole: int = 0, cpu: int = 8, **also: object) -> AgentView:
    """`shared`: what is left of devices that are shared; `whole`: how many more are free."""
    free = slots(whole * 1000 + sum(shared), cpu)
    opened = tuple(PartlyFreeDevice(number * 10 + index, left) for index, left in enumerate(shared))
    devices = (SlotDevices("gpu", size, whole, opened),)
    view = AgentView(number, "x86_64", slots(size * 1000, 8), free, devices=devices)
    return replace(view, **also)


def session(
    number: int, *gpus: int, minutes: int | None = None, waited: int = 1, priority: int = 0, **needs: object
) -> PendingSession:
    return PendingSession(
        id=UUID(int=number),
        enqueued_at=at(-waited),
        requirements=Requirements("x86_64", tuple(map(slots, gpus)), **needs),
        kernel_ids=tuple(UUID(int=number * 100 + index) for index in range(len(gpus))),
        priority=priority,
        max_runtime=None if minutes is None else timedelta(minutes=minutes),
    )


def decide(agents: Sequence[AgentView], *pending: PendingSession, rules: Rules | None = None) -> Plan:
    return plan(Snapshot(1, "lab", 0, tuple(agents), pending, rules or Rules()), NOW)


def placed(decided: Plan) -> dict[int, tuple[int, ...]]:
    return {each.session_id.int: each.agent_ids for each in decided.placements}


def test_devices_of_one_group_go_together_and_large_groups_stay_whole():
    eight = [Device(number, number // 4, number // 4) for number in range(8)]
    assert choose_devices(eight, 4) == (0, 1, 2, 3)
    assert choose_devices(eight[1:], 1) == (1,)
    assert choose_devices(eight[1:], 4) == (4, 5, 6, 7)
    assert choose_devices(eight[2:], 2) == (2, 3)
    assert choose_devices([*eight, Device(9)], 1) == (9,)


def test_devices_that_are_given_in_sets_break_the_fewest_of_them():
    pairs = [frozenset({str(number), str(number + 1)}) for number in range(0, 8, 2)]
    sets = {1: [], 2: pairs, 4: [pairs[0] | pairs[1], pairs[2] | pairs[3]], 8: []}
    eight = [Device(10 + number, place=str(number)) for number in range(8)]
    assert choose_allowed_set(eight, 8, sets) == tuple(range(10, 18))
    assert choose_allowed_set(eight[1:], 1, sets) == (11,)  # its pair is broken
    assert choose_allowed_set(eight[1:], 2, sets) == (12, 13)  # its four are
    assert choose_allowed_set(eight[1:], 4, sets) == (14, 15, 16, 17)
    for free, count in ((eight[1:3], 2), (eight[2:6], 4), (eight, 3)):
        with pytest.raises(NoAllowedSet):
            choose_allowed_set(free, count, sets)


def test_else_they_are_of_one_numa_node_else_of_as_few_groups_as_possible():
    pairs = [Device(number, number // 2, number // 4) for number in range(8)]
    assert choose_devices(pairs, 3) == (0, 1, 2)
    assert choose_devices(pairs, 5) == (0, 1, 2, 3, 4)
    assert choose_devices([Device(number) for number in range(3)], 2) == (0, 1)


def test_a_part_comes_of_the_device_with_least_left_and_the_same_ones_are_dealt():
    table = DeviceTable()
    for number, occupied in enumerate([0, 400, 500, 1000]):
        table.add(Device(number), occupied)
    assert table.assign(500) == (2,)
    assert table.assign(500) == (1,)
    assert table.assign(500, may_join=False) == (0,)
    assert table.assign(250) == (0,)
    with pytest.raises(NoSuchDevices, match="1 whole devices are more than the 0"):
        table.assign(300)
    with pytest.raises(NoSuchDevices, match="neither"):
        table.assign(1500)


def test_of_two_parts_the_second_gets_a_device_of_its_own():
    tables = {name: DeviceTable() for name in ("gpu", "npu")}
    for table in tables.values():
        table.add(Device(1), 500)
        table.add(Device(2), 0)
    assert assign_devices(slots(500, npu=500), tables) == {"gpu": (1,), "npu": (2,)}
    assert assign_devices(slots(500), {"gpu": None}) == {}


def test_the_most_of_one_device_is_a_whole_one_or_what_is_left_of_a_shared_one():
    devices = SlotDevices("gpu", 4, 2, (PartlyFreeDevice(1, 500),))
    assert most_for_one_kernel((devices,), "gpu") == 2000
    assert most_for_one_kernel((devices._replace(whole=0),), "gpu") == 500
    assert most_for_one_kernel((), "gpu") == MAX_AMOUNT


def test_two_free_halves_are_no_whole_device_and_reason_says_so():
    decided = decide([agent(1, 2, 500, 500)], session(1, 1000))
    [deferral] = decided.deferrals
    assert deferral.reason is ReasonCode.FRAGMENTED
    assert "1 gpu in whole devices" in str(message_for(deferral.explanation, "lab"))
    assert "has more than 0 gpu whole" in str(message_for(deferral.explanation, "lab"))


@pytest.mark.parametrize(
    ("withheld", "asked", "expected"),
    [
        ((1, 1), session(1, 2000), ReasonCode.DEVICES_WITHHELD),  # one agent would have two again
        ((1, 1), session(1, 3000), ReasonCode.NEVER_FITS),
        ((1, 0), session(1, 2000, 1000), ReasonCode.DEVICES_WITHHELD),
        ((1, 0), session(1, 2000, 2000), ReasonCode.NEVER_FITS),
        ((1, 0), session(1, 2000, 1000, gang=Gang.SPREAD), ReasonCode.DEVICES_WITHHELD),
        ((2, 0), session(1, *[1000] * 3, gang=Gang.SPREAD), ReasonCode.NEVER_FITS),
        ((2, 0), session(1, 1000, 2000, gang=Gang.ONE_MACHINE), ReasonCode.DEVICES_WITHHELD),
        ((1, 1), session(1, 2000, linked_devices=True), ReasonCode.DEVICES_WITHHELD),
        ((1, 1), session(1, 2000, device_mem_bytes=1), ReasonCode.NO_SUCH_DEVICE),
    ],
)
def test_session_waits_for_withheld_devices_if_it_fits_with_them(
    withheld: tuple[int, ...], asked: PendingSession, expected: ReasonCode
):
    agents = [
        replace(agent(number, 1, whole=1), devices=(SlotDevices("gpu", 1, 1, withheld=count),))
        for number, count in enumerate(withheld, 1)
    ]
    [deferral] = decide(agents, asked).deferrals
    assert deferral.reason is expected
    if expected is ReasonCode.DEVICES_WITHHELD:
        assert deferral.explanation.withheld == ResourceSlots({"gpu": 1000 * sum(withheld)})


@pytest.mark.parametrize(("are_known", "names"), [(True, {"gpu"}), (False, set())])
def test_reason_states_capacity_of_one_device_if_devices_are_known(are_known: bool, names: set[str]):
    asked, one = session(1, 500), agent(1, 2, 700, whole=1)
    view = one if are_known else replace(one, devices=())
    machines = CapacityTracker(AgentIndex(Snapshot(1, "lab", 0, (view,), (asked,))), NOW, {})
    assert machines.free_devices(asked.requirements).keys() == names


def test_two_free_quarters_are_no_half_and_reason_says_so():
    [deferral] = decide([agent(1, 2, 250, 250)], session(1, 500)).deferrals
    assert deferral.reason is ReasonCode.FRAGMENTED
    assert "of no device more than 0.25 gpu" in str(message_for(deferral.explanation, "lab"))


@pytest.mark.parametrize(
    ("asked", "others", "free"), [(500, agent(2, 2, 300, 300), 300), (1000, agent(2, 2, 500, 500), 500)]
)
def test_reason_ignores_devices_of_agents_without_other_capacity(asked, others, free):
    [deferral] = decide([agent(1, 1, whole=1, cpu=0), others], session(1, asked)).deferrals
    assert (deferral.reason, deferral.explanation.devices) == (
        ReasonCode.FRAGMENTED,
        FreeDevices("gpu", 0, free),
    )


def test_agents_with_unknown_devices_count_amounts():
    unknown = replace(agent(1, 2, 500, 500), devices=())
    assert placed(decide([unknown, agent(2, 1)], session(1, 1000), session(2, 500))) == {1: (1,)}
    assert placed(decide([unknown, agent(2, 1)], session(1, 500), session(2, 500))) == {1: (1,), 2: (1,)}


def test_parts_fill_shared_devices_before_they_break_whole_ones():
    agents = [agent(1, 2, 700, whole=1), agent(2, 2, 600, whole=1), agent(3, 2, 600, cpu=0)]
    decided = decide(
        agents, session(1, 500), session(2, 500), session(3, 500), session(4, 500), session(5, 500)
    )
    assert placed(decided) == {1: (2,), 2: (1,), 3: (1,), 4: (1,), 5: (2,)}


def test_more_than_one_device_is_given_whole_or_not_at_all():
    assert placed(decide([agent(1, 4, whole=4)], session(1, 1500))) == {}
    assert placed(decide([agent(1, 4, whole=4)], session(1, 1500, designated_agent_id=1))) == {}


def test_session_with_designated_agent_shares_devices_of_that_agent_only():
    agents = [agent(1, 2, 500), agent(2, 2, 600, whole=1)]
    assert placed(decide(agents, session(1, 500, designated_agent_id=2))) == {1: (2,)}
    elsewhere = session(1, 550, designated_agent_id=1, may_run_elsewhere=True)
    assert placed(decide(agents, elsewhere)) == {1: (2,)}
    preferring = session(1, 500, designated_agent_id=2, may_run_elsewhere=True)
    assert placed(decide(agents, preferring)) == {1: (2,)}
    assert placed(decide(agents, session(1, 800, designated_agent_id=9))) == {}


def test_session_of_one_model_shares_devices_of_that_model_only():
    agents = [agent(1, 1, 500, device_model="A"), agent(2, 1, 600, device_model="B")]
    assert placed(decide(agents, session(1, 500, device_model="B"))) == {1: (2,)}


def test_what_does_not_end_in_time_shares_nothing_that_will_be_reserved():
    window = ReservationWindow(7, at(10), at(20))
    agents = [agent(1, 1, 500, next_window=window)]
    assert placed(decide(agents, session(1, 500, minutes=5))) == {1: (1,)}
    assert placed(decide(agents, session(1, 500, minutes=15))) == {}
    named = session(1, 500, minutes=15, designated_agent_id=1)
    assert placed(decide(agents, named)) == {}
    assert placed(decide(agents, replace(named, max_runtime=timedelta(minutes=5)))) == {1: (1,)}


def test_gangs_share_or_wait_together():
    assert placed(decide([agent(1, 2, 500, 500)], session(1, 500, 500))) == {1: (1, 1)}
    decided = decide([agent(1, 2, 500, 400)], session(1, 500, 500), session(2, 500))
    assert placed(decided) == {2: (1,)}


def test_a_device_is_whole_again_when_the_last_of_its_sharers_ends():
    here = (
        RunningAllocation(slots(250), at(10), (DeviceShare("gpu", 10, 250),)),
        RunningAllocation(slots(250), at(30), (DeviceShare("gpu", 10, 250),)),
    )
    decided = decide([agent(1, 1, 500, cpu=6, running=here)], session(1, 1000))
    assert [each.starts_at for each in decided.reservations] == [at(30)]
    with_unknown = agent(1, 1, 250, cpu=5, running=here)
    assert decide([with_unknown], session(1, 1000)).reservations == ()


def test_whole_devices_come_back_with_those_that_hold_them():
    here = (
        RunningAllocation(slots(2000), at(10)),
        RunningAllocation(slots(500), at(20), (DeviceShare("gpu", 10, 500),)),
    )
    agents = [agent(1, 3, 500, cpu=6, running=here)]
    assert [each.starts_at for each in decide(agents, session(1, 2000)).reservations] == [at(10)]
    assert [each.starts_at for each in decide(agents, session(1, 3000)).reservations] == [at(20)]


def test_a_part_that_was_placed_in_the_pass_keeps_its_device_from_being_whole():
    here = (RunningAllocation(slots(500), at(10), (DeviceShare("gpu", 10, 500),)),)
    agents = [agent(1, 1, 500, cpu=7, running=here)]
    decided = decide(agents, session(1, 500, minutes=20, priority=1), session(2, 1000))
    assert [each.starts_at for each in decided.reservations] == [at(20)]
    decided = decide(agents, session(1, 500, priority=1), session(2, 1000))
    assert decided.reservations == ()


def test_the_first_that_waits_for_a_part_waits_for_the_device_that_has_it_first():
    here = (RunningAllocation(slots(500), at(10), (DeviceShare("gpu", 10, 500),)),)
    agents = [agent(1, 1, 250, cpu=7, running=here)]  # and a quarter of which nobody knows the end
    decided = decide(agents, session(1, 750), session(2, 250, waited=0), session(3, 250, minutes=5, waited=0))
    assert [each.starts_at for each in decided.reservations] == [at(10)]
    assert placed(decided) == {3: (1,)}


def test_share_counts_as_whole_device_beside_reserved_whole_device():
    here = (RunningAllocation(slots(2000), at(10)),)
    agents = [agent(1, 3, whole=1, cpu=7, running=here)]
    decided = decide(agents, session(1, 3000), session(2, 500, waited=0))
    assert placed(decided) == {}
    decided = decide(agents, session(1, 2000), session(2, 500, waited=0), session(3, 500, waited=0))
    assert placed(decided) == {2: (1,)}
    decided = decide(agents, session(1, 3000), session(2, 500, minutes=9), session(3, 500, minutes=9))
    assert placed(decided) == {2: (1,), 3: (1,)}


def test_partly_placed_gang_returns_shares_beside_reservation():
    here = (RunningAllocation(slots(1000), at(10)),)
    agents = [agent(1, 3, 500, whole=1, cpu=7, running=here)]
    pending = [session(1, 2000), session(2, 500, 500, 1000, minutes=5), session(3, 600, 600, 600)]
    decided = decide(agents, *pending, session(4, 500, minutes=5), session(5, 1000, minutes=5))
    assert placed(decided) == {4: (1,), 5: (1,)}


def test_reserved_share_blocks_other_shares_but_not_whole_devices():
    here = (RunningAllocation(slots(500, 7), at(10), (DeviceShare("gpu", 10, 500),)),)
    agents = [agent(1, 3, 250, whole=2, cpu=1, running=here)]
    first = replace(session(1, 500), requirements=Requirements("x86_64", (slots(500, 2),)))
    decided = decide(agents, first, session(2, 250, waited=0), session(3, 1000, waited=0))
    assert placed(decided) == {3: (1,)}


def test_preemption_of_shared_device_ends_as_few_as_needed():
    here = tuple(
        PreemptibleAllocation(
            UUID(int=50 + number), -1, at(-number), slots(300), (DeviceShare("gpu", 10, 300),)
        )
        for number in range(3)
    )
    agents = [agent(1, 1, 100, cpu=5, preemptible=here)]
    rules = Rules(preemption=PreemptionRule(0, timedelta(), timedelta(minutes=1)))
    assert [len(each.victims) for each in decide(agents, session(1, 400), rules=rules).evictions] == [1]
    assert [len(each.victims) for each in decide(agents, session(1, 1000), rules=rules).evictions] == [3]


def test_a_planner_goes_on_when_devices_are_shared_and_when_parts_come():
    planner, whole = Planner(), agent(1, 2, whole=2)
    for agents, pending in (
        ([whole], [session(1, 1000)]),
        ([whole], [session(2, 500)]),
        ([agent(1, 2, 500, whole=1)], [session(3, 1000), session(4, 1000)]),
        ([replace(whole, devices=(SlotDevices("gpu", 3, 2),))], [session(5, 1000)]),
    ):
        told = Snapshot(1, "lab", 0, tuple(agents), tuple(pending))
        assert planner.plan(told, NOW) == plan(told, NOW)
    planner = Planner()
    for agents in ([whole], [agent(1, 2, 500, whole=1)]):
        told = Snapshot(1, "lab", 0, tuple(agents), (session(1, 2000),))
        assert planner.plan(told, NOW) == plan(told, NOW)


def test_what_agents_that_take_nothing_have_counts_for_what_never_fits():
    agents = [agent(1, 1, 500), replace(agent(2, 4, 500), is_schedulable=False)]
    assert decide(agents, session(1, 4000)).deferrals[0].reason is ReasonCode.NO_CAPACITY
    assert decide(agents, session(1, 5000)).deferrals[0].reason is ReasonCode.NEVER_FITS


def test_sharing_does_not_change_sessions_without_devices():
    here = (RunningAllocation(ResourceSlots({"cpu": 4000}), at(10)),)
    unknown = replace(agent(2, 2, whole=2, cpu=4, running=here), devices=())
    only_cores = replace(
        session(1, 500), requirements=Requirements("x86_64", (ResourceSlots({"cpu": 6000}),))
    )
    decided = decide([agent(1, 1, 500, cpu=4), unknown], only_cores)
    assert decided.deferrals[0].reason is ReasonCode.FRAGMENTED
    assert decided.deferrals[0].explanation.devices is None
    assert [(each.agent_ids, each.starts_at) for each in decided.reservations] == [((2,), at(10))]


def test_reason_ignores_unknown_single_devices():
    unknown = replace(agent(2, 2, cpu=8), devices=(), free=slots(0, 8))
    [deferral] = decide([agent(1, 2, 500, 500), unknown], session(1, 1000)).deferrals
    assert deferral.reason is ReasonCode.FRAGMENTED
    assert deferral.explanation.devices is not None


@pytest.mark.parametrize("named", [None, 1])
def test_amount_that_single_devices_cannot_give_gets_no_reservation(named):
    here = tuple(RunningAllocation(slots(1000, 1), at(30), ()) for _ in range(2))
    told = [
        session(1, 2000, waited=20),
        session(2, 1500, minutes=5, waited=10, designated_agent_id=named),
        session(3, 500, minutes=5, waited=5, designated_agent_id=named),
    ]
    busy = agent(1, 4, whole=1, running=here)
    decided = decide([replace(busy, free=slots(1000, 6))], *told)
    assert [each.session_id.int for each in decided.placements] == [3]


def two_kinds(number: int, gpu: int, npu: int) -> AgentView:
    """With one shared device of each."""
    kinds = tuple(
        SlotDevices(name, 1, 0, (PartlyFreeDevice(number * 10 + index, left),))
        for index, (name, left) in enumerate((("gpu", gpu), ("npu", npu)))
    )
    running = tuple(
        RunningAllocation(
            ResourceSlots({name: 1000 - left}), at(10), (DeviceShare(name, number * 10 + index, 1000 - left),)
        )
        for index, (name, left) in enumerate((("gpu", gpu), ("npu", npu)))
    )
    free = slots(gpu, npu=npu)
    return AgentView(number, "x86_64", slots(1000, 8, npu=1000), free, devices=kinds, running=running)


def test_a_part_of_one_kind_of_device_comes_from_no_other():
    asked = session(1, 600)
    assert [each.starts_at for each in decide([two_kinds(1, 500, 900)], asked).reservations] == [at(10)]
    assert placed(decide([two_kinds(1, 700, 100)], asked)) == {1: (1,)}


def test_what_is_to_be_on_one_machine_goes_where_devices_have_all_its_parts():
    together = {"gang": Gang.ONE_MACHINE}
    agents = [agent(1, 2, 600, 300), agent(2, 2, 500, 700)]
    assert placed(decide(agents, session(1, 500, 500, **together))) == {1: (2, 2)}
    assert placed(decide(agents[:1], session(1, 500, 500, **together))) == {}
    here = (
        RunningAllocation(slots(400), at(10), (DeviceShare("gpu", 10, 400),)),
        RunningAllocation(slots(700), at(20), (DeviceShare("gpu", 11, 700),)),
    )
    decided = decide([replace(agents[0], running=here)], session(1, 800, 800, **together))
    assert [(each.agent_ids, each.starts_at) for each in decided.reservations] == [((1, 1), at(20))]


@pytest.mark.parametrize("rule", PlacementRule)
def test_shares_follow_placement_group_rule(rule: PlacementRule):
    agents = (agent(1, 1, 500), agent(2, 1, 500), agent(3, 1, 1000))
    asked = session(1, 500, placement_group=PlacementGroup("web", rule))
    told = Snapshot(1, "lab", 0, agents, (asked,), group_hosts={"web": (GroupHost(1, 1),)})
    [(found,)] = placed(plan(told, NOW)).values()
    assert (found == 1) is not rule.is_spread


def test_gang_that_does_not_fit_beside_reservation_changes_nothing():
    here = (RunningAllocation(slots(2000, 1), at(10)),)
    agents = [agent(1, 4, 500, whole=1, cpu=7, running=here)]
    pending = [session(1, 2000), session(2, 500, 600, 600), session(3, 500)]
    assert placed(decide(agents, *pending)) == {3: (1,)}


def test_equal_share_requests_get_equal_device_reasons():
    agents = [agent(1, 2, 400, 300, cpu=8)]
    decided = decide(
        agents,
        session(1, 500),
        replace(session(2, 500), requirements=Requirements("x86_64", (slots(500, 2),))),
    )
    assert [each.explanation.devices for each in decided.deferrals] == [FreeDevices("gpu", 0, 400)] * 2


def test_whole_devices_are_dealt_as_whole_ones():
    dealt = DeviceTable()
    for number in range(3):
        dealt.add(Device(number), 0)
    assert dealt.assign(2000) == (0, 1)
    with pytest.raises(NoSuchDevices):
        dealt.assign(2000)
