"""Laws of shared devices: every planned amount can be assigned to devices, and no device twice.

A small world has machines with devices and what runs there, by name; each minute is a tick, and its plan is dealt as a commit does.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.values.resources import ResourceSlots
from scheduler.engine import (
    AgentView,
    DeviceShare,
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
    Requirements,
    Rules,
    RunningAllocation,
    SlotDevices,
    Snapshot,
    Strategy,
    plan,
)
from scheduler.engine.accelerators import Device, DeviceTable, NoSuchDevices

pytestmark = pytest.mark.walk

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CORES = 16
AMOUNTS = st.sampled_from([250, 250, 400, 500, 500, 600, 750, 1000, 1000, 2000, 2000, 3000])
LINKED = 3  # devices with such numbers in a row are linked
MINUTES = st.none() | st.integers(1, 6)


@dataclass(frozen=True)
class Held:
    """What a container holds, until which minute."""

    agent_id: int
    amount: int
    devices: tuple[int, ...]
    until: int | None
    cores: int = 1

    @property
    def slots(self) -> ResourceSlots:
        return ResourceSlots({"cpu": self.cores * 1000, "gpu": self.amount})

    @property
    def ends_at(self) -> datetime | None:
        return None if self.until is None else at(self.until)

    @property
    def shares(self) -> tuple[DeviceShare, ...]:
        is_part = self.devices and self.amount < 1000
        return (DeviceShare("gpu", self.devices[0], self.amount),) if is_part else ()


@dataclass(frozen=True)
class World:
    """`sizes`: how many devices each machine has; 0: two that nobody knows one by one. `cores`: of each, if not CORES."""

    sizes: tuple[int, ...]
    held: tuple[Held, ...]
    cores: tuple[int, ...] = ()

    def at(self, minute: int) -> "World":
        return replace(
            self, held=tuple(each for each in self.held if each.until is None or each.until > minute)
        )

    def occupied(self, agent_id: int) -> dict[int, int]:
        occupied = {agent_id * 100 + number: 0 for number in range(self.sizes[agent_id - 1])}
        for each in self.held:
            for device_id in each.devices if each.agent_id == agent_id else ():
                occupied[device_id] += each.amount // len(each.devices)
        return occupied

    def agents(self) -> tuple[AgentView, ...]:
        return tuple(self._agent(number) for number in range(1, len(self.sizes) + 1))

    def _agent(self, agent_id: int) -> AgentView:
        size, here = self.sizes[agent_id - 1], [each for each in self.held if each.agent_id == agent_id]
        cores = self.cores[agent_id - 1] if self.cores else CORES
        capacity = ResourceSlots({"cpu": cores * 1000, "gpu": (size or 2) * 1000})
        occupied = self.occupied(agent_id)
        shared = [
            PartlyFreeDevice(number, 1000 - part) for number, part in occupied.items() if 0 < part < 1000
        ]
        links = Counter(number // LINKED for number in occupied)
        free = Counter(number // LINKED for number, part in occupied.items() if not part)
        whole, free_links = list(occupied.values()).count(0), tuple(free[each] for each in links)
        devices = SlotDevices("gpu", size, whole, tuple(shared), tuple(links.values()), free_links)
        return AgentView(
            agent_id,
            "x86_64",
            capacity,
            capacity - sum((each.slots for each in here), ResourceSlots()),
            running=tuple(
                RunningAllocation(each.slots, each.ends_at, each.shares)
                for each in here
                if each.ends_at is not None
            ),
            preemptible=tuple(
                PreemptibleAllocation(
                    UUID(int=1000 + agent_id * 50 + number), -1, at(-9), each.slots, each.shares, each.ends_at
                )
                for number, each in enumerate(here)
            ),
            devices=(devices,) if size else (),
        )

    def table(self, agent_id: int) -> DeviceTable:
        table = DeviceTable()
        for number, occupied in self.occupied(agent_id).items():
            table.add(Device(number, number // LINKED), occupied)
        return table

    def can_give(self, agent: AgentView, needs: Requirements) -> bool:
        """Whether it has room for all kernels."""
        if not needs.total.fits_in(agent.free):
            return False
        table = self.table(agent.id)
        try:
            for slots in needs.kernels if agent.devices else ():
                table.assign(slots["gpu"], must_be_linked=bool(needs.linked_amounts))
        except NoSuchDevices:
            return False
        return True

    def after(self, decided: Plan, minute: int) -> "World":
        """With what was placed: dealt as a commit does it, and nobody has more than there is."""
        tables = {agent_id: self.table(agent_id) for agent_id, size in enumerate(self.sizes, 1) if size}
        held = list(self.held)
        for placement in decided.placements:
            lasts = placement.session.max_runtime
            for kernel in placement.kernels:
                table = tables.get(kernel.agent_id)
                amount, linked = kernel.slots["gpu"], kernel.must_be_linked
                given = table.assign(amount, must_be_linked=linked) if table and amount else ()
                assert not linked or len({each // LINKED for each in given}) == 1
                until = None if lasts is None else minute + int(lasts.total_seconds()) // 60
                cores = kernel.slots["cpu"] // 1000
                held.append(Held(kernel.agent_id, kernel.slots["gpu"], given, until, cores))
        world = replace(self, held=tuple(held))
        for agent in world.agents():
            assert all(amount >= 0 for amount in agent.free.values())
            assert all(part <= 1000 for part in world.occupied(agent.id).values())
        return world


def at(minute: int) -> datetime:
    return NOW + timedelta(minutes=minute)


@st.composite
def worlds(draw: st.DrawFn, ends: st.SearchStrategy[int | None] = MINUTES) -> World:
    """As plans leave them: what runs was placed by plans, and some of it is gone."""
    sizes = tuple(draw(st.lists(st.sampled_from([1, 2, 2, 3, 4, 6, 0]), min_size=1, max_size=3)))
    world = World(sizes, ())
    pending = tuple(draw(sessions(number, ends)) for number in range(100, draw(st.integers(100, 112))))
    world = world.after(plan(snapshot_of(world, pending), NOW), 0)
    return replace(world, held=tuple(each for each in world.held if draw(st.integers(0, 2))))


@st.composite
def sessions(draw: st.DrawFn, number: int, lasts: st.SearchStrategy[int | None] = MINUTES) -> PendingSession:
    amount, cores = draw(AMOUNTS), draw(st.sampled_from([1, 1, 2, 6]))
    count = draw(st.sampled_from([1, 1, 1, 2, 3]))
    needs = Requirements(
        "x86_64",
        (ResourceSlots({"cpu": cores * 1000, "gpu": amount}),) * count,
        draw(st.none() | st.none() | st.none() | st.integers(1, 3)),
        may_run_elsewhere=draw(st.booleans()),
        gang=draw(st.sampled_from(Gang)) if count > 1 else Gang.ANYWHERE,
        linked_devices=amount > 1000 and draw(st.booleans()),
    )
    minutes = draw(lasts)
    return PendingSession(
        id=UUID(int=number),
        enqueued_at=NOW - timedelta(minutes=draw(st.sampled_from([1, 20]))),
        requirements=needs,
        kernel_ids=tuple(UUID(int=number * 100 + index) for index in range(count)),
        priority=draw(st.sampled_from([0, 0, 0, 1])),
        max_runtime=None if minutes is None else timedelta(minutes=minutes),
    )


PREEMPTION = PreemptionRule(0, timedelta(), timedelta(minutes=1))
RULES = st.builds(
    Rules, strategy=st.sampled_from(Strategy), preemption=st.none() | st.none() | st.just(PREEMPTION)
)
QUEUES = st.integers(0, 8).flatmap(
    lambda count: st.tuples(*(sessions(number) for number in range(1, count + 1)))
)


def snapshot_of(world: World, pending: Sequence[PendingSession], rules: Rules | None = None) -> Snapshot:
    return Snapshot(1, "lab", 0, world.agents(), tuple(pending), rules or Rules())


@given(worlds(), QUEUES, RULES)
def test_what_is_placed_can_be_dealt_and_no_device_is_given_twice(world, queue, rules):
    world.after(plan(snapshot_of(world, queue, rules), NOW), 0)


@given(worlds(), QUEUES, RULES, st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_rows(world, queue, rules, random):
    told = snapshot_of(world, queue, rules)
    shuffled = replace(
        told,
        agents=tuple(random.sample(told.agents, len(told.agents))),
        pending=tuple(random.sample(queue, len(queue))),
    )
    assert plan(told, NOW) == plan(shuffled, NOW)


@given(worlds(), st.lists(QUEUES, min_size=2, max_size=4), RULES, st.data())
def test_a_planner_that_planned_before_plans_as_a_new_one(world, queues, rules, data):
    planner = Planner()
    for minute, queue in enumerate(queues):
        told = snapshot_of(world.at(minute), queue, rules)
        decided = planner.plan(told, at(minute))
        assert decided == plan(told, at(minute))
        if data.draw(st.booleans()):
            world = world.at(minute).after(decided, minute)


@given(worlds(), QUEUES)
def test_a_part_waits_only_where_no_device_has_it(world, queue):
    """Nor does a whole one wait where an agent has one and the rest."""
    decided = plan(snapshot_of(world, queue), NOW)
    after = world.after(decided, 0)
    kept = {agent_id for each in decided.reservations for agent_id in each.agent_ids}
    waiting = {each.session_id for each in decided.deferrals}
    for session in queue:
        if session.id not in waiting or len(session.kernel_ids) > 1 or session.requirements.required_agent_id:
            continue
        if session.requirements.linked_amounts:
            continue
        [slots] = session.requirements.kernels
        for agent in after.agents():
            if agent.id in kept or not slots.fits_in(agent.free):
                continue
            if not agent.devices:
                raise AssertionError(f"{session} waits, and {agent} has room.")
            left = [1000 - part for part in after.occupied(agent.id).values()]
            whole = left.count(1000) * 1000
            assert slots["gpu"] > (whole if slots["gpu"] >= 1000 else max(left))


@given(worlds(), QUEUES, RULES)
def test_the_kernels_of_a_gang_lie_as_it_says(world, queue, rules):
    for session, agent_ids in plan(snapshot_of(world, queue, rules), NOW).placements:
        if session.requirements.gang is Gang.ONE_MACHINE:
            assert len(set(agent_ids)) == 1
        if session.requirements.gang is Gang.SPREAD:
            assert len(set(agent_ids)) == len(agent_ids)


@given(worlds(), sessions(1), st.sampled_from([2, 3, 4]))
def test_a_gang_on_one_machine_waits_only_where_no_machine_has_devices_for_all_its_parts(world, one, count):
    kernels = one.requirements.kernels[:1] * count
    needs = replace(one.requirements, kernels=kernels, gang=Gang.ONE_MACHINE, linked_devices=False)
    gang = replace(one, requirements=needs, kernel_ids=tuple(UUID(int=number) for number in range(count)))
    told = snapshot_of(world, [gang])
    decided = plan(told, NOW)
    hosts = [each for each in told.agents if needs.may_run_on(each) and world.can_give(each, needs)]
    assert bool(decided.placements) == bool(hosts)
    world.after(decided, 0)


@given(worlds(), sessions(1))
def test_linked_devices_are_waited_for_only_where_no_agent_has_so_many_free(world, one):
    needs = replace(one.requirements, kernels=one.requirements.kernels[:1], linked_devices=True)
    told = snapshot_of(world, [replace(one, requirements=needs, kernel_ids=one.kernel_ids[:1])])
    hosts = [each for each in told.agents if needs.may_run_on(each) and world.can_give(each, needs)]
    assert bool(plan(told, NOW).placements) == bool(hosts)


@given(
    worlds(),
    QUEUES,
    st.lists(st.sampled_from(PlacementRule), min_size=8, max_size=8),
    st.sets(st.integers(1, 3)),
    RULES,
)
def test_rules_of_placement_groups_hold_for_parts_too(world, queue, drawn, hosts, rules):
    grouped = tuple(
        replace(each, requirements=replace(each.requirements, placement_group=PlacementGroup("web", rule)))
        for each, rule in zip(queue, drawn, strict=False)
    )
    told = snapshot_of(world, grouped, rules)
    told = replace(told, group_hosts={"web": tuple(GroupHost(each, 1) for each in sorted(hosts))})
    decided = plan(told, NOW)
    world.after(decided, 0)
    for session, agent_ids in decided.placements:
        assert session.requirements.placement_group is not None
        if session.requirements.placement_group.rule is PlacementRule.STRICT_SPREAD:
            assert hosts.isdisjoint(agent_ids)
        if session.requirements.placement_group.rule is PlacementRule.STRICT_PACK:
            assert not hosts or hosts.issuperset(agent_ids)
        hosts = hosts.union(agent_ids)


@given(worlds(), QUEUES)
def test_what_is_said_of_fragments_is_so(world, queue):
    """It counts the agents with cores enough, and is less than what is asked."""
    decided = plan(snapshot_of(world, queue), NOW)
    after = world.after(decided, 0)
    by_id = {session.id: session for session in queue}
    for deferral in decided.deferrals:
        room, needs = deferral.explanation.devices, by_id[deferral.session_id].requirements
        hosts = [
            each
            for each in after.agents()
            if needs.may_run_on(each) and each.devices and needs.total["cpu"] <= each.free["cpu"]
        ]
        if room:
            left = [1000 - part for host in hosts for part in after.occupied(host.id).values()]
            assert room.most_of_one == max(left)
            assert room.whole == max(each.devices[0].whole for each in hosts) * 1000
            asked = needs.total["gpu"]
            assert (room.most_of_one if asked % 1000 else room.whole) < asked


@given(
    worlds(st.integers(1, 6)),
    st.lists(st.tuples(st.just(0), sessions(50)), min_size=1, max_size=7),
    st.lists(st.tuples(st.integers(1, 9), sessions(50)), max_size=9),
    st.booleans(),
)
def test_nothing_that_passes_the_first_makes_it_start_later(world, waiting, later, is_dispersed):
    """As if it waited alone and nobody came after it, minute by minute; all that runs ends, and some of what waits or comes does
    not say when."""
    queue = [
        replace(each, id=UUID(int=number), priority=1 if number == 1 else 0, enqueued_at=at(minute))
        for number, (minute, each) in enumerate([*waiting, *later], 1)
    ]
    # Of linked devices it only knows when nearly all are free.
    queue[0] = replace(queue[0], requirements=replace(queue[0].requirements, linked_devices=False))
    rules = Rules(strategy=Strategy.DISPERSED if is_dispersed else Strategy.CONCENTRATED)
    alone = _starts_at(queue[:1], world, rules)
    assert alone is None or _starts_at(queue, world, rules) <= alone


def _starts_at(queue: Sequence[PendingSession], world: World, rules: Rules) -> int | None:
    for minute in range(12):
        world = world.at(minute)
        there = [each for each in queue if each.enqueued_at <= at(minute)]
        decided = plan(snapshot_of(world, there, rules), at(minute))
        world = world.after(decided, minute)
        placed = {each.session_id for each in decided.placements}
        if UUID(int=1) in placed:
            return minute
        queue = [each for each in queue if each.id not in placed]
    return None


@given(worlds(), QUEUES)
def test_preemption_frees_enough_devices_for_the_preempting_session(world, queue):
    """None of them is needless, whoever ends by itself until they are gone."""
    rules = Rules(preemption=PREEMPTION)
    told = snapshot_of(world, queue, rules)
    decided = plan(told, NOW)
    after = world.after(decided, 0)
    by_id = {session.id: session for session in queue}
    for eviction in decided.evictions:
        then = after.at((eviction.ends_at - NOW) // timedelta(minutes=1))  # what ends in time may pass it
        here = [each for each in world.held if each.agent_id == eviction.agent_id]
        leaving = {
            number
            for number in range(len(here))
            if UUID(int=1000 + eviction.agent_id * 50 + number) in eviction.victims
        }

        def has_room(gone: set[int], eviction=eviction, here=here, then=then) -> bool:
            going = [here[number] for number in gone]
            left = replace(
                then, held=tuple(each for each in then.held if not any(each is one for one in going))
            )
            alone = replace(by_id[eviction.session_id], preemption_claim=None)
            agent = next(each for each in left.agents() if each.id == eviction.agent_id)
            only = replace(told, agents=(replace(agent, running=(), preemptible=()),), pending=(alone,))
            return bool(plan(replace(only, rules=Rules()), NOW).placements)

        assert has_room(leaving)
        assert not any(has_room(leaving - {one}) for one in leaving)
