"""A portal with three machines of their own networks, which lose power, cables and minds."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from portal.ops.cluster import engine, machines
from portal.ops.cluster.layout import Cluster, ClusterMachine, Options
from tests.cluster.observer import ClusterObserver, MachineEngine
from tests.faults.cleanup import CLUSTER_FILE, begin_run, left_of, remove_run
from tests.faults.engines import OwnEngine, load_image
from tests.faults.fault import Fault, observed
from tests.faults.observer import ENDED, ObservedEngine
from tests.faults.portal import Client, FaultPortal
from tests.waiting import wait_until

COUNT = 3
DISK_MIB = 300
GROUP = "machines"
GRACE_S = 8
NOTICED_S, HEALED_S = 20, 10
"""Limits of the time until a lost machine is noticed, and until a healed one is connected."""
MAKE_GROUP = """
from agents.resource_groups.service import create_resource_group
from common.actors import SYSTEM
create_resource_group(actor=SYSTEM, name="machines")
"""


@dataclass(slots=True)
class ClusterWorld:
    portal: FaultPortal
    client: Client
    observer: ClusterObserver
    machines: list[ClusterMachine]

    def start(self, machine: ClusterMachine | None = None, **request: Any) -> str:
        """Start a batch session that runs until it is stopped, on this machine if one is named; its id."""
        place = {"designated_agent": machine.name} if machine else {}
        batch = {"type": "batch", "command": "sleep 3600", "resource_group": GROUP}
        return self.client.start(**{**batch, **place, **request})

    def run(self, machine: ClusterMachine | None = None, **request: Any) -> str:
        session_id = self.start(machine, **request)
        self.client.wait_for([session_id], "RUNNING")
        return session_id

    def is_connected(self, machine: ClusterMachine) -> bool:
        row = self.observer.agent(machine.name)
        return row["state"] == "connected" and not row["last_error"]

    def is_lost(self, machine: ClusterMachine) -> bool:
        return bool(self.observer.agent(machine.name)["state"] == "lost")

    def wait_until_lost(self, machine: ClusterMachine) -> None:
        wait_until(lambda: self.is_lost(machine), deadline_s=60, interval_s=0.1)

    def wait_until_connected(self, machine: ClusterMachine) -> None:
        wait_until(lambda: self.is_connected(machine), deadline_s=60, interval_s=0.1)

    def register(self, machine: ClusterMachine) -> None:
        certificates = str(machine.cluster.certificates)
        command = ("register_agent", machine.name, machine.url, "--tls", certificates, "--group", GROUP)
        self.portal.manage(*command)

    def give_image(self, machine: ClusterMachine) -> None:
        with MachineEngine(machine).client() as client:
            load_image(client)

    def heal(self) -> None:
        """Every machine is on, connected, and has room; the portal works."""
        self.portal.release()
        self.portal.go_on()
        self.portal.ensure_running()
        for machine in self.machines:
            machines.free_disk(machine)
            if engine.engine_pid(machine):
                machines.unpause_engine(machine)
            machines.start_machine(machine)
        for machine in self.machines:
            self.wait_until_connected(machine)

    def end_all(self) -> None:
        self.client.stop(row["id"] for row in self.client.sessions() if row["status"] not in ENDED)


@pytest.fixture(scope="session")
def cluster_world() -> Iterator[ClusterWorld]:
    home, cluster = begin_run(os.getpid()), Cluster(uuid4().hex[:6])
    (home / CLUSTER_FILE).write_text(cluster.id)
    try:
        made = machines.bring_up(cluster, COUNT, Options(disk_mib=DISK_MIB))
        own = OwnEngine(home, "own", has_live_restore=True)
        own.start()
        own.load_image()
        portal = FaultPortal(home, own.address, BERTH_LOST_GRACE_S=str(GRACE_S))
        portal.begin()
        portal.manage("shell", "-c", MAKE_GROUP)
        client = Client(portal)
        [local] = client.agents()
        engines: list[ObservedEngine] = [own, *(MachineEngine(machine) for machine in made)]
        names = [local, *(machine.name for machine in made)]
        observer = ClusterObserver(portal.database_url, portal.installation, engines, names)
        world = ClusterWorld(portal, client, observer, made)
        for machine in made:
            world.give_image(machine)
            world.register(machine)
        yield world
    finally:
        remove_run(home)
    assert [*left_of(home), *machines.left_of(cluster)] == []


@pytest.fixture
def fault(cluster_world: ClusterWorld, request: pytest.FixtureRequest) -> Iterator[Fault]:
    """Around each test; the docstring of the test says what was done."""
    world = cluster_world
    with observed(world.observer, request.node, heal=world.heal, tidy=world.end_all) as one:
        yield one
