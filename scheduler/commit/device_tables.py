"""Choose the devices of the kernels of a plan, by the rows of the locked agents."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db.models import F, OuterRef, Q, Subquery

from agents.accelerators.grant_builder import device_sets, sets_of_vendor
from agents.core.isolation import SharingMode
from agents.models import AgentDevice, SharingRule
from agents.vendors.sharing import vendors_with
from common.values.resources import CPU, MEM, MILLI
from scheduler.commit.pending_reasons import NO_SET
from scheduler.engine import KernelPlacement
from scheduler.engine.accelerators import (
    Device,
    DeviceAssignment,
    DeviceTable,
    NoAllowedSet,
    OtherProject,
    assign_devices,
    fractional_slot,
)
from scheduler.explain.messages import OTHER_PROJECT
from scheduler.snapshot.accelerators import NOBODY
from sessions_app.models import Kernel

DeviceTables = Mapping[tuple[int, str], DeviceTable]  # by agent and slot
_COLUMNS = (
    "pk", "agent_id", "slot_name", "is_usable", "occupied", "link_group", "numa_node", "vendor", "facts",
    "sharing_project_id", "mode",
)  # fmt: skip


class DevicesTaken(Exception):
    """Raised if kernels of a plan get no devices although enough are free: no set is free as a whole, or
    others share them. Nothing was written. `reasons` are texts of messages, by kernel.
    """

    def __init__(self, reasons: Mapping[UUID, str]) -> None:
        super().__init__(reasons)
        self.reasons = reasons


def read_device_tables(kernels: Sequence[KernelPlacement]) -> DeviceTables:
    """Return the devices of the agents of these kernels. The caller has locked the rows of the agents,
    which protects the set of devices, and of their slots, which protects the allocated parts. 1 query,
    none if no kernel asks for devices.
    """
    by_mps = vendors_with(SharingMode.MPS)
    tables = defaultdict[tuple[int, str], DeviceTable](DeviceTable)
    asked = sorted({each.agent_id for each in kernels if not each.slots.keys() <= {CPU, MEM}})
    if not asked:
        return {}
    own_or_usual = Q(model=OuterRef("model")) | Q(model="")
    rules = SharingRule.objects.filter(own_or_usual, group=OuterRef("agent__resource_group"))
    devices = AgentDevice.objects.filter(agent__in=asked)
    devices = devices.annotate(mode=Subquery(rules.order_by(F("model").desc()).values("mode")[:1]))
    for row in devices.order_by("pk").values_list(*_COLUMNS, named=True):
        table = tables[row.agent_id, row.slot_name]
        rule = sets_of_vendor(row.vendor)
        if rule is not None:
            table.sets = device_sets(rule)
        place = "" if rule is None else str(row.facts.get(rule.key, ""))
        if row.mode == SharingMode.MPS and row.vendor in by_mps:
            table.kept_apart.add(row.pk)
        if 0 < row.occupied < MILLI and (row.sharing_project_id or row.pk in table.kept_apart):
            table.sharers[row.pk] = row.sharing_project_id or NOBODY
        if row.is_usable:
            table.add(Device(row.pk, row.link_group, row.numa_node, place), row.occupied)
    return tables


def assign_kernel_devices(kernels: Sequence[KernelPlacement], tables: DeviceTables) -> list[DeviceAssignment]:
    """Return the devices of each kernel, for the slots whose devices are known. 1 query if parts are
    asked of devices that projects do not share. Raises NoSuchDevices, DevicesTaken.
    """
    projects = _projects_of(kernels, tables)
    assignments, unmet = [], dict[UUID, str]()
    for kernel in kernels:
        known = {name: tables.get((kernel.agent_id, name)) for name in kernel.slots}
        project = projects.get(kernel.kernel_id, 0)
        try:
            assignments.append(
                assign_devices(kernel.slots, known, must_be_linked=kernel.must_be_linked, project=project)
            )
        except NoAllowedSet:
            unmet[kernel.kernel_id] = NO_SET
        except OtherProject:
            unmet[kernel.kernel_id] = OTHER_PROJECT
    if unmet:
        raise DevicesTaken(unmet)
    return assignments


def _projects_of(kernels: Sequence[KernelPlacement], tables: DeviceTables) -> dict[UUID, int]:
    if not any(table.kept_apart or table.sharers for table in tables.values()):
        return {}
    parts = [kernel.kernel_id for kernel in kernels if fractional_slot(kernel.slots)]
    return dict(Kernel.objects.filter(pk__in=parts).values_list("pk", "session__project_id"))
