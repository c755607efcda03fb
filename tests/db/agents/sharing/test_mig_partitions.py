"""MIG layouts of devices, made by the real program on NVIDIA's fake library."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.core.roles import Role
from agents.accelerators.description import VendorDescription
from agents.accelerators.device_files import DeviceFileVendor
from agents.machines import discovery, probing
from agents.machines import service as machines_service
from agents.machines.probing import Discovery
from agents.machines.withholding import quarantine_device, release_device
from agents.models import Agent, AgentDevice, Withheld
from agents.resource_groups import service as resource_groups_service
from agents.sharing import mig_partitions
from agents.vendors.selectors import known_vendors
from agents.vendors.service import create_vendor_file
from common import clock
from common.actors import SYSTEM
from common.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from common.models import AuditEntry
from tests.doubles.split_machine import BUILT, SplitMachine, capacity, discover_devices, make_split_machine
from tests.factories import actor_for, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SplitMachine:
    return make_split_machine(tmp_path, monkeypatch)


@pytest.fixture
def agent(machine: SplitMachine) -> Agent:
    resource_groups_service.create_resource_group(actor=SYSTEM, name=machine.name, is_default=False)
    agent = machines_service.register_agent(
        actor=SYSTEM, name=machine.name, address=f"tcp://{machine.name}:2376"
    )
    discover_devices()
    return agent


def gpu(agent: Agent, index: int = 0) -> AgentDevice:
    return agent.devices.get(parent_id="", index=index)


def split(agent: Agent, layout: dict[str, int]) -> None:
    mig_partitions.request_layout(actor=SYSTEM, agent_id=agent.pk, device_id=gpu(agent).pk, layout=layout)
    mig_partitions.apply_layouts()


def test_layout_makes_partitions_that_are_given_out_instead_of_the_device(agent: Agent) -> None:
    assert capacity(agent) == {"cuda": 2}
    split(agent, {"1g.10gb": 4, "3g.40gb": 1})
    rows = agent.devices.filter(parent_id=gpu(agent).device_id)
    assert Counter(row.profile for row in rows) == {"1g.10gb": 4, "3g.40gb": 1}
    assert capacity(agent) == {"cuda": 1, "mig-1g-10gb": 4, "mig-3g-40gb": 1}
    assert (gpu(agent).withheld, gpu(agent).wanted_layout) == (Withheld.PARTITIONED, None)
    assert AuditEntry.objects.get(action="agents.partition_device").changes["layout"] == {
        "1g.10gb": 4, "3g.40gb": 1
    }  # fmt: skip


def test_layout_that_nobody_asked_to_change_stays(agent: Agent, machine: SplitMachine) -> None:
    split(agent, {"1g.10gb": 2})
    before = len(machine.helpers)
    mig_partitions.apply_layouts()
    assert (len(machine.helpers), capacity(agent)) == (before, {"cuda": 1, "mig-1g-10gb": 2})


def test_new_layout_replaces_the_ids_and_none_gives_the_device_back(agent: Agent) -> None:
    split(agent, {"1g.10gb": 2})
    before = set(agent.devices.exclude(parent_id="").values_list("device_id", flat=True))
    split(agent, {"1g.10gb": 3})
    after = set(agent.devices.exclude(parent_id="").values_list("device_id", flat=True))
    assert (len(after), before & after) == (3, set())
    split(agent, {})
    assert (capacity(agent), gpu(agent).withheld) == ({"cuda": 2}, "")


def test_device_that_is_about_to_change_is_given_to_nobody(agent: Agent) -> None:
    split(agent, {"1g.10gb": 2})
    mig_partitions.request_layout(
        actor=SYSTEM, agent_id=agent.pk, device_id=gpu(agent).pk, layout={"7g.80gb": 1}
    )
    assert capacity(agent) == {"cuda": 1}
    mig_partitions.apply_layouts()
    assert capacity(agent) == {"cuda": 1, "mig-7g-80gb": 1}


def test_device_or_partition_that_is_held_keeps_its_layout(agent: Agent) -> None:
    split(agent, {"1g.10gb": 2})
    AgentDevice.objects.filter(pk=agent.devices.filter(profile="1g.10gb").first().pk).update(occupied=1000)
    with pytest.raises(Conflict, match="Sessions hold"):
        split(agent, {"1g.10gb": 3})
    assert capacity(agent)["mig-1g-10gb"] == 2


def test_helper_that_is_killed_is_followed_by_another_that_goes_on(
    agent: Agent, machine: SplitMachine
) -> None:
    mig_partitions.request_layout(
        actor=SYSTEM, agent_id=agent.pk, device_id=gpu(agent).pk, layout={"1g.10gb": 4}
    )
    machine.dies_after = 2
    mig_partitions.apply_layouts()
    assert (gpu(agent).withheld, capacity(agent)) == (Withheld.PARTITIONED, {"cuda": 1, "mig-1g-10gb": 2})
    machine.dies_after = None
    split(agent, {"1g.10gb": 4})
    assert capacity(agent) == {"cuda": 1, "mig-1g-10gb": 4}


def test_profile_that_the_device_lacks_is_told_and_the_device_given_out_again(agent: Agent) -> None:
    split(agent, {"1g.5gb": 2})
    device = gpu(agent)
    assert "no profile 1g.5gb, only 1g.10gb" in device.warning
    assert device.wanted_layout is None


def test_layout_of_a_model_is_for_all_devices_that_nobody_holds(agent: Agent) -> None:
    AgentDevice.objects.filter(pk=gpu(agent, 1).pk).update(occupied=250)
    [refusal] = mig_partitions.request_layout_of_model(
        actor=SYSTEM, group=agent.resource_group, model=gpu(agent).model, layout={"7g.80gb": 1}
    )
    assert "Sessions hold" in refusal.message
    mig_partitions.apply_layouts()
    assert capacity(agent) == {"cuda": 1, "mig-7g-80gb": 1}


@pytest.mark.parametrize(
    "layout", [{"1g": 1}, {"1g.10gb": 0}, {"1g.10gb": -1}, {"1g.10gb": 8}, {"1g.10gb": True}, {"../x": 1}]
)
def test_wrong_layout_is_refused(agent: Agent, layout: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        split(agent, layout)


def test_only_superadmins_split_devices_and_only_those_that_exist(agent: Agent) -> None:
    admin = actor_for(make_user(role=Role.DOMAIN_ADMIN))
    for actor, device_id, refusal in ((admin, gpu(agent).pk, PermissionDenied), (SYSTEM, 10**9, NotFound)):
        with pytest.raises(refusal):
            mig_partitions.request_layout(actor=actor, agent_id=agent.pk, device_id=device_id, layout={})


def test_split_keeps_the_devices_of_vendors_that_an_administrator_described(
    agent: Agent,
) -> None:
    create_vendor_file(
        actor=SYSTEM,
        form=DeviceFileVendor(name="board", title="Board", model="Board", device="/dev/board{n}"),
    )
    seen: list[str] = []
    discover = mig_partitions.discover

    def noting(agent: Agent, vendors: Sequence[VendorDescription], images: Sequence[str]) -> Discovery:
        seen.extend(vendor.name for vendor in vendors)
        return discover(agent, vendors, images)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mig_partitions, "discover", noting)
        split(agent, {"1g.10gb": 2})
    assert "board" in seen


def test_look_that_began_before_a_split_does_not_undo_it(agent: Agent) -> None:
    began_at, old = clock.now(), probing.discover(agent, known_vendors(), [f"sha256:{BUILT}"])
    split(agent, {"1g.10gb": 2})
    discovery.record_discovery(agent.pk, old, began_at=began_at)
    assert capacity(agent) == {"cuda": 1, "mig-1g-10gb": 2}


def test_released_device_that_was_split_meanwhile_is_not_given_as_a_whole(agent: Agent) -> None:
    quarantine_device(actor=SYSTEM, device_id=gpu(agent).pk, because="Split by hand.")
    AgentDevice.objects.create(
        agent=agent, slot_name="mig-1g-10gb", device_id="MIG-1", index=0, parent_id=gpu(agent).device_id
    )
    release_device(actor=SYSTEM, device_id=gpu(agent).pk)
    assert (gpu(agent).is_usable, capacity(agent)) == (False, {"cuda": 1, "mig-1g-10gb": 1})


def test_slots_are_locked_before_devices(agent: Agent) -> None:
    found = probing.discover(agent, known_vendors(), [f"sha256:{BUILT}"])
    with CaptureQueriesContext(connection) as queries:
        discovery.record_discovery(agent.pk, found)
    locks = [each["sql"] for each in queries if "FOR NO KEY UPDATE" in each["sql"]]
    tables = [
        next(t for t in ("agents_agentslot", "agents_agentdevice", "agents_agent") if t in q) for q in locks
    ]
    assert tables[:3] == ["agents_agent", "agents_agentslot", "agents_agentdevice"]
