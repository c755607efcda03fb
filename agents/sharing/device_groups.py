"""Groups that several devices of one container must form, made by the vendor's tool in a helper.

`Agent.data["device_groups"]` has them by container, written before a group is made and deleted after
it was removed, so that a process that died leaves nothing behind.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import structlog
from django.db import transaction

from agents.accelerators.description import Group, VendorDescription, vendor_named
from agents.accelerators.report_parser import device_probe
from agents.machines.discovery import record_discovery
from agents.machines.helper_containers import one_off_labels
from agents.machines.probing import discover, grant_for, without_missing_file
from agents.models import Agent, AgentDevice
from agents.runtime.port import (
    ContainerRuntime,
    DeviceUnavailable,
    HelperSpec,
    RuntimeRefused,
    RuntimeUnavailable,
)
from agents.selectors import runtime_of
from agents.sharing.helper_containers import ROLE, image_for, text_of
from agents.vendors.selectors import known_vendors
from common import clock
from common.db.advisory_locks import try_exclusive
from images.selectors import built_image_ids

GROUPS = "device_groups"
TIMEOUT_S = 60

log = structlog.get_logger(__name__)


def ensure_group(agent: Agent, container: str, devices: Sequence[AgentDevice]) -> bool:
    """Have the devices of a container form a group if there are several and their vendor wants one; return
    True if the rows of devices may have changed. May be repeated. Raises DeviceUnavailable, RuntimeFault.
    """
    vendor = _grouping_vendor(agent, devices)
    if vendor is None or len(devices) < 2:
        return False
    with _locked(agent):
        _read_again(agent)  # indices may have changed since, also by a process that died
        number = _record(agent, vendor, container, devices)
        if not _is_formed(agent, vendor, devices, number):
            group = _group_of(vendor)
            chosen = agent.devices.filter(pk__in=[device.pk for device in devices]).order_by("index")
            indices = ",".join(str(index) for index in chosen.values_list("index", flat=True))
            _run(agent, vendor, group.create, number, indices)
            _read_again(agent)
            if not _is_formed(agent, vendor, devices, number):
                raise DeviceUnavailable(f"{vendor.title}: the devices form no group after it was made.")
    return True


@contextmanager
def keep_indices(agent: Agent, devices: Sequence[AgentDevice]) -> Iterator[bool]:
    """Keep the indices of the machine's devices as they are until the block ends, in which a container
    with these devices starts; yield True if their rows may have changed since they were loaded. Raises
    RuntimeFault.
    """
    if _grouping_vendor(agent, devices) is None:
        yield False
        return
    with _locked(agent):
        agent.refresh_from_db(fields=["data"])
        if agent.data.get(GROUPS):  # who changed indices last may have died before it read them again
            _read_again(agent)
        yield True


def remove_group(agent: Agent, container: str) -> None:
    """Remove the group of a container that is gone. Succeeds if it has none. Raises RuntimeFault."""
    if container not in agent.data.get(GROUPS, {}):
        return
    with _locked(agent):
        _read_again(agent)
        agent.refresh_from_db(fields=["data"])
        told = agent.data.get(GROUPS, {}).get(container)
        if told is None:
            return
        vendor = vendor_named(told["vendor"])
        if vendor is not None and _members(agent, vendor, told["number"]) & set(told["devices"]):
            _run(agent, vendor, _group_of(vendor).remove, told["number"], "")
            _read_again(agent)
        with transaction.atomic():
            row = Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
            row.data[GROUPS].pop(container, None)
            row.save(update_fields=["data"])
        agent.data = row.data


def remove_unused_groups(agent: Agent, live_containers: Collection[str]) -> None:
    """Remove the groups of containers that are not among the live ones. Raises RuntimeFault."""
    for container in sorted({*agent.data.get(GROUPS, {})} - set(live_containers)):
        log.warning("devices.group_left", agent_id=agent.pk, container=container)
        remove_group(agent, container)


def group_command(command: Sequence[str], number: int, indices: str) -> list[str]:
    """Return a command of the vendor's tool for a group of this number."""
    return [word.replace("{group}", str(number)).replace("{index*}", indices) for word in command]


def run_tool(
    runtime: ContainerRuntime, vendor: VendorDescription, argv: Sequence[str], nodes: Collection[str]
) -> None:
    """Run a command of the vendor's tool as root, with all of the vendor's devices. Raises RuntimeFault,
    DeviceUnavailable if the tool fails.
    """
    spec = HelperSpec(
        name=f"berth-group-{uuid4().hex[:12]}",
        image=image_for(runtime),
        labels=one_off_labels(ROLE),
        command=tuple(argv),
        grant=grant_for(device_probe(vendor), runtime.info(), nodes),
        is_privileged=True,
    )
    while True:
        try:
            done = runtime.run_helper(spec, timeout_s=TIMEOUT_S)
            break
        except RuntimeRefused as refusal:
            spec = without_missing_file(spec, refusal)
    if done.exit_code:
        raise DeviceUnavailable(f"{' '.join(argv)}: {text_of(done) or f'exit code {done.exit_code}'}")


def _run(agent: Agent, vendor: VendorDescription, command: Sequence[str], number: int, indices: str) -> None:
    argv = group_command(command, number, indices)
    run_tool(runtime_of(agent), vendor, argv, agent.data.get("device_nodes", {}))


def _read_again(agent: Agent) -> None:
    began_at = clock.now()
    found = discover(agent, known_vendors(), built_image_ids())
    record_discovery(agent.pk, found, began_at=began_at)


@transaction.atomic
def _record(agent: Agent, vendor: VendorDescription, container: str, devices: Sequence[AgentDevice]) -> int:
    """Write that the container has a group, and return its number: its own, else one that is free."""
    row = Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
    groups: dict[str, Any] = row.data.setdefault(GROUPS, {})
    ids = sorted(device.device_id for device in devices)
    told = groups.get(container)
    if told is None or told["devices"] != ids:
        taken = {each["number"] for each in groups.values()} | {*_numbers(agent, vendor).values()}
        number = next(each for each in range(1, len(taken) + 2) if each not in taken)
        told = groups[container] = {"vendor": vendor.name, "number": number, "devices": ids}
        row.save(update_fields=["data"])
    agent.data = row.data
    return int(told["number"])


def _is_formed(agent: Agent, vendor: VendorDescription, devices: Sequence[AgentDevice], number: int) -> bool:
    return _members(agent, vendor, number) == {device.device_id for device in devices}


def _members(agent: Agent, vendor: VendorDescription, number: int) -> set[str]:
    return {device_id for device_id, own in _numbers(agent, vendor).items() if own == number}


def _numbers(agent: Agent, vendor: VendorDescription) -> dict[str, Any]:
    """Return the number of each device's group, as last read."""
    rows = agent.devices.filter(vendor=vendor.name, is_present=True).values_list("device_id", "facts")
    return {device_id: facts.get(_group_of(vendor).field) for device_id, facts in rows}


def _grouping_vendor(agent: Agent, devices: Sequence[AgentDevice]) -> VendorDescription | None:
    names = set() if agent.is_simulated else {device.vendor for device in devices}
    found = [vendor_named(name) for name in sorted(names)]
    return next((vendor for vendor in found if vendor and vendor.grant.group), None)


def _group_of(vendor: VendorDescription) -> Group:
    if vendor.grant.group is None:
        raise ValueError(f"{vendor.name} has no groups.")
    return vendor.grant.group


@contextmanager
def _locked(agent: Agent) -> Iterator[None]:
    """Keep other processes from changing groups, and with them indices. Raises RuntimeUnavailable if one
    does now.
    """
    with try_exclusive(indices_lock(agent)) as is_mine:
        if not is_mine:
            raise RuntimeUnavailable("Devices of the machine are being grouped, or given by their index.")
        yield


def indices_lock(agent: Agent) -> str:
    """Return the name of the lock of who changes, or relies on, the indices of the agent's devices."""
    return f"device indices of agent {agent.pk}"
