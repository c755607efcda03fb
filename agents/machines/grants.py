"""Grants of accelerators on one agent, and the devices at fault when its engine cannot give them; the
runtime that its resource group wants.
"""

from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import NamedTuple

from agents.accelerators.base import AcceleratorDevice
from agents.accelerators.grant import DeviceGrant, join_grants
from agents.accelerators.grant_builder import (
    GrantedDevice,
    MachineFacts,
    NoGrant,
    build_grant,
    describing_grant,
    devices_named_in,
)
from agents.core.sandboxes import SANDBOX_NAMES, gives_devices, sandbox_runtime
from agents.machines.withholding import withhold_devices
from agents.models import Agent, AgentDevice, ResourceGroup, Withheld
from agents.runtime.port import DeviceUnavailable, RuntimeRefused
from agents.vendors.selectors import known_vendor

_REPORTED = [each.name for each in fields(AcceleratorDevice)]


class DevicePart(NamedTuple):
    """A device of an agent and the allocated part of it, in thousandths."""

    row: AgentDevice
    share: int


def machine_facts(agent: Agent) -> MachineFacts:
    """Return what the agent's machine reported of its engine and its files."""
    return MachineFacts(
        engine_version=agent.engine_version,
        runtimes=agent.data.get("runtimes", ()),
        cdi_devices=agent.data.get("cdi_devices", ()),
        nodes=agent.data.get("device_nodes", {}),
        paths=agent.data.get("paths", ()),
    )


def allowed_extras(group: ResourceGroup) -> tuple[str, ...]:
    """Return the extras of grants that the group's sessions get where a machine has them."""
    rules = {"rdma": group.allows_rdma, "storage": group.allows_gpudirect_storage}
    return tuple(name for name, is_allowed in rules.items() if is_allowed)


def grant_devices(agent: Agent, parts: Sequence[DevicePart], *, extras: Collection[str] = ()) -> DeviceGrant:
    """Return what a container on this agent gets for these devices. Containers of a simulated engine get
    variables alone. Raises DeviceUnavailable.
    """
    given = [GrantedDevice(_reported(part.row), part.share) for part in parts]
    grants = []
    for vendor_name in () if agent.is_simulated else sorted({part.row.vendor for part in parts}):
        vendor = known_vendor(vendor_name)
        if vendor is None:
            raise DeviceUnavailable(
                f"Berth knows no vendor “{vendor_name}” and cannot give its devices to containers."
            )
        own = [each for each in given if each.device.vendor == vendor_name]
        try:
            grants.append(build_grant(vendor, own, machine_facts(agent), extras=extras))
        except NoGrant as refusal:
            raise DeviceUnavailable(str(refusal)) from refusal
    return join_grants(*grants, describing_grant(given))


def group_runtime(agent: Agent, group: ResourceGroup, *, has_devices: bool) -> str:
    """Return the runtime of the agent's engine for sessions of the group; "": its default. Raises
    RuntimeRefused, rather than start a session outside of its sandbox or without its devices: the group or
    the engine has changed since it was admitted.
    """
    name = SANDBOX_NAMES[group.sandbox]
    if has_devices and not gives_devices(group.sandbox):
        raise RuntimeRefused(
            f"Sessions of “{group.name}” run in {name}, which cannot give them accelerators."
        )
    runtime = sandbox_runtime(group.sandbox, agent.data.get("runtimes", ()))
    if runtime is None:
        raise RuntimeRefused(f"The engine of {agent.name} has no runtime for {name}.")
    return runtime


def withhold_failed_devices(agent: Agent, parts: Sequence[DevicePart], error: DeviceUnavailable) -> None:
    """Withhold the devices that the agent could not give: those that the engine's message names, else all
    of their kind on the agent, because then something that they share is missing.
    """
    alone = {}
    for part in parts:
        try:
            alone[part.row.pk] = grant_devices(agent, [part])
        except DeviceUnavailable:
            continue
    failed = devices_named_in(str(error), alone)
    if not failed:
        kinds = {part.row.vendor for part in parts}
        failed = set(agent.devices.filter(vendor__in=kinds).values_list("pk", flat=True))
    withhold_devices(agent.pk, failed, kind=Withheld.UNAVAILABLE, because=str(error))


def _reported(row: AgentDevice) -> AcceleratorDevice:
    return AcceleratorDevice(**{name: getattr(row, name) for name in _REPORTED})
