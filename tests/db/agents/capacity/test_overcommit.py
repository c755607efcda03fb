"""Resource groups that offer more CPU and memory than their agents have."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from agents.capacity.overcommit import apply_overcommit
from agents.machines.simulation import MachineShape, add_simulated_agents
from agents.models import Agent, AgentSlot
from agents.resource_groups.service import create_resource_group, move_agent, update_resource_group
from agents.selectors import MachineTraits, has_machine_for, slot_capacities
from common import clock
from common.actors import SYSTEM
from common.models import AuditEntry
from common.values.resources import ResourceSlots
from scheduler.commit.plan_commit import StalePlan, commit_plan
from scheduler.engine import plan
from scheduler.snapshot.reader import read_snapshot
from scheduler.tick import run_tick
from sessions_app.models import ComputeSession, KernelAllocation
from tests.chaos.questions import OVER_ALLOCATED
from tests.factories_scheduler import Cluster, make_cluster

pytestmark = pytest.mark.django_db
GIB = 2**30
MACHINE = {"cpu": 4000, "mem": 8 * GIB, "gpu": 2000}


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster()


def overcommit(cluster: Cluster, **factors: Any) -> None:
    update_resource_group(actor=SYSTEM, group_id=cluster.group.pk, changes=factors)


def occupied(agent: Agent, slot: str = "cpu") -> int:
    return AgentSlot.objects.get(agent=agent, slot_name=slot).occupied


def allocatable(agent: Agent) -> dict[str, int]:
    return {slot.slot_name: slot.allocatable for slot in AgentSlot.objects.filter(agent=agent)}


def running(cluster: Cluster) -> int:
    run_tick(cluster.group.pk)
    return ComputeSession.objects.exclude(status="PENDING").count()


def test_machines_take_what_their_group_promises_and_no_more(cluster: Cluster) -> None:
    agent = cluster.add_agent(MACHINE)
    overcommit(cluster, cpu_overcommit="2.0", mem_overcommit="1.25")
    assert allocatable(agent) == {"cpu": 8000, "mem": 10 * GIB, "gpu": 2000}
    for _ in range(4):
        cluster.add_pending({"cpu": 3000, "mem": GIB})
    assert running(cluster) == 2
    assert occupied(agent) == 6000
    with pytest.raises(IntegrityError), transaction.atomic():
        AgentSlot.objects.filter(agent=agent, slot_name="cpu").update(occupied=8001)
    assert not AgentSlot.objects.raw(OVER_ALLOCATED.replace("SELECT ", "SELECT slot.id, ", 1))


def test_devices_are_never_promised_twice(cluster: Cluster) -> None:
    agent = cluster.add_agent(MACHINE)
    overcommit(cluster, cpu_overcommit=10, mem_overcommit=10)
    for _ in range(3):
        cluster.add_pending({"cpu": 1000, "mem": GIB, "gpu": 1000})
    assert running(cluster) == 2
    assert occupied(agent, "gpu") == 2000


def test_one_container_gets_no_more_than_a_machine_has(cluster: Cluster) -> None:
    small = cluster.add_agent(MACHINE)
    overcommit(cluster, cpu_overcommit=2)
    five = ResourceSlots({"cpu": 5000, "mem": GIB})
    assert not has_machine_for(cluster.group, five, MachineTraits(small.architecture))
    session = cluster.add_pending(five.to_json())
    assert running(cluster) == 0
    session.refresh_from_db()
    assert session.status_reason == "never_fits"
    large = cluster.add_agent({"cpu": 6000, "mem": 8 * GIB})
    overcommit(cluster, cpu_overcommit=1.5)
    assert running(cluster) == 1
    assert (occupied(small), occupied(large)) == (0, 5000)
    room = slot_capacities(SYSTEM, group_id=cluster.group.pk)["cpu"]
    assert (room.largest, room.most_free, room.capacity, room.occupied) == (6000, 4000, 15_000, 5000)


def test_less_promised_than_is_held_ends_nothing_and_starts_nothing_until_enough_has_ended(
    cluster: Cluster,
) -> None:
    agent = cluster.add_agent(MACHINE)
    overcommit(cluster, cpu_overcommit=2)
    for _ in range(8):
        cluster.add_pending({"cpu": 1000, "mem": GIB // 2})
    assert running(cluster) == 8
    overcommit(cluster, cpu_overcommit=1)
    cluster.add_pending({"cpu": 1000, "mem": GIB // 2})
    assert (running(cluster), occupied(agent)) == (8, 8000)
    for left in (7000, 6000, 5000, 4000):
        KernelAllocation.objects.filter(
            kernel=KernelAllocation.objects.filter(agent=agent).order_by("kernel").first().kernel  # type: ignore[union-attr]
        ).delete()
        assert (running(cluster), occupied(agent)) == (8, left)
    KernelAllocation.objects.filter(
        kernel=KernelAllocation.objects.filter(agent=agent).order_by("kernel").first().kernel  # type: ignore[union-attr]
    ).delete()
    assert (running(cluster), occupied(agent)) == (9, 4000)


def test_a_machine_promises_what_the_group_says_that_it_is_in(cluster: Cluster) -> None:
    agent = cluster.add_agent(MACHINE)
    overcommit(cluster, cpu_overcommit=2)
    plain = create_resource_group(actor=SYSTEM, name="plain")
    move_agent(actor=SYSTEM, agent_id=agent.pk, group_id=plain.pk)
    assert allocatable(agent) == MACHINE
    move_agent(actor=SYSTEM, agent_id=agent.pk, group_id=cluster.group.pk)
    assert allocatable(agent)["cpu"] == 8000


def test_a_plan_made_for_a_larger_machine_is_stale(cluster: Cluster) -> None:
    agent = cluster.add_agent(MACHINE)
    overcommit(cluster, cpu_overcommit=3)
    cluster.add_pending({"cpu": 4000, "mem": GIB})
    decided = plan(read_snapshot(cluster.group.pk), clock.now())
    assert decided.placements
    AgentSlot.objects.filter(agent=agent, slot_name="cpu").update(capacity=3000)
    with pytest.raises(StalePlan, match="less than one"):
        commit_plan(decided)


def test_what_was_changed_is_written_down(cluster: Cluster) -> None:
    overcommit(cluster, cpu_overcommit="1.5")
    entry = AuditEntry.objects.filter(action="agents.update_resource_group").latest("id")
    assert entry.changes == {"cpu_overcommit": [1.0, 1.5]}


def test_machines_that_come_at_once_are_read_once_though_the_database_takes_its_tables_for_empty() -> None:
    """As they were when it last looked: each machine was compared with each other."""
    far = create_resource_group(actor=SYSTEM, name="far")
    add_simulated_agents(actor=SYSTEM, group=far, count=200, shape=MachineShape())
    Agent.objects.all().delete()
    with connection.cursor() as cursor:
        for table in ("agents_agent", "agents_agentslot"):
            cursor.execute(f"ANALYZE {table}")
    made = add_simulated_agents(actor=SYSTEM, group=far, count=200, shape=MachineShape())
    before = slots_read()
    apply_overcommit([agent.pk for agent in made])
    assert slots_read() - before < 20 * len(made)


def slots_read() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'agents_agentslot'"
        )
        return int(cursor.fetchone()[0])
