"""Meters: a helper container for each machine and vendor of accelerators that prints their use.

They are checked every half minute: made where they are missing, replaced when they ended (a driver was
upgraded) or when image, program or description changed, and removed where they are not wanted.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

import structlog
from django.conf import settings
from django.core.cache import cache
from django.db.models import QuerySet

from agents.accelerators.description import VendorDescription, vendor_named
from agents.accelerators.grant import BoundPath, DeviceGrant
from agents.accelerators.probe import MOUNTED_AT, meter_command, program_files
from agents.accelerators.report import ProbeRequest
from agents.accelerators.report_parser import use_probe
from agents.core.states import AgentState
from agents.machines.helper_containers import NO_IMAGE, helper_image, helper_labels
from agents.machines.machines_file import write_machines_file
from agents.machines.probing import grant_for, machine_mounts, without_missing_file
from agents.models import Agent, AgentDevice
from agents.runtime.addresses import SIMULATED
from agents.runtime.port import (
    HELPER_FILES_AT,
    ContainerRuntime,
    EngineInfo,
    HelperSpec,
    RuntimeFault,
    RuntimeRefused,
)
from agents.selectors import runtime_of
from common import clock
from common.resilience.keyed_pool import KeyedPool

log = structlog.get_logger(__name__)

ROLE = "meter"
THREADS = 16
ROUND_S = 60
METER_MEM_BYTES = 64 * 2**20
METER_LOG_BYTES = 2**20
RETIRED_FOR = timedelta(days=1)
"""Time in which the meters of a retired machine are removed, as soon as it answers."""
FILES_KEPT_S = 3600
"""Seconds until files of the machine that were missing are tried again."""

_pool = KeyedPool[None]("meters", THREADS)


def meter_name(vendor: str) -> str:
    """Return the name of the container; each installation has its own."""
    return f"berth-meter-{settings.BERTH_INSTALLATION}-{vendor}"[:120]


def just_retired_agents() -> QuerySet[Agent]:
    """Return the retired machines whose helpers may still have to be removed."""
    since = clock.now() - RETIRED_FOR
    return Agent.objects.in_state(AgentState.RETIRED).filter(state_changed_at__gte=since, last_error="")


def reconcile_meters(image_ids: Sequence[str]) -> None:
    """Have the wanted meters of all machines, and no others. Three queries."""
    write_machines_file()
    wanted = _vendors_by_agent()
    real = Agent.objects.exclude(address__startswith=SIMULATED)
    retired_since = clock.now() - RETIRED_FOR
    work = {}
    for agent in real.filter(last_error=""):
        if agent.state == AgentState.RETIRED and agent.state_changed_at < retired_since:
            continue
        vendors = () if agent.state == AgentState.RETIRED else wanted.get(agent.pk, ())
        work[agent.pk] = partial(_keep_or_log, agent, vendors, image_ids)
    _pool.run(work, timeout_s=ROUND_S)


def _vendors_by_agent() -> Mapping[int, list[VendorDescription]]:
    present = AgentDevice.objects.filter(is_present=True).exclude(vendor="").order_by("agent_id", "vendor")
    found: dict[int, list[VendorDescription]] = {}
    for agent_id, name in present.values_list("agent_id", "vendor").distinct():
        vendor = vendor_named(name)
        if vendor is not None and vendor.measure.sources:
            found.setdefault(agent_id, []).append(vendor)
    return found


def _keep_or_log(agent: Agent, vendors: Collection[VendorDescription], image_ids: Sequence[str]) -> None:
    try:
        reconcile_meters_of(agent, vendors, image_ids)
    except RuntimeFault as fault:
        log.warning("meter.failed", agent=agent.name, error=str(fault))


def reconcile_meters_of(
    agent: Agent, vendors: Collection[VendorDescription], image_ids: Sequence[str]
) -> None:
    """Have the meters of these vendors on the machine, and no others. Calls its engine, never the
    database. Raises RuntimeFault.
    """
    runtime = runtime_of(agent)
    names = {meter_name(vendor.name) for vendor in vendors}
    for state in runtime.list_containers(helper_labels(ROLE)):
        if state.name not in names:
            runtime.remove_container(state.name)
    if not vendors:
        return
    image_id = helper_image(runtime, image_ids)
    if image_id is None:
        raise RuntimeRefused(f"{NO_IMAGE}.")
    info = runtime.info()
    for vendor in vendors:
        _ensure_meter(agent, runtime, vendor, info, image_id)


def _ensure_meter(
    agent: Agent, runtime: ContainerRuntime, vendor: VendorDescription, info: EngineInfo, image_id: str
) -> None:
    request, key = use_probe(vendor), f"meter-files:{agent.pk}:{vendor.name}"
    grant = grant_for(request, info, agent.data.get("device_nodes", {}))
    missing: list[str] = cache.get(key, [])
    spec = meter_spec(vendor.name, request, image_id, _without(grant, missing))
    while True:
        try:
            runtime.ensure_helper(spec)
        except RuntimeRefused as refusal:
            smaller = without_missing_file(spec, refusal)
            missing += [bind.source for bind in spec.grant.binds if bind not in smaller.grant.binds]
            spec = smaller
        else:
            # The same spec is asked for again, so that the meter is left alone.
            if missing:
                cache.set(key, missing, timeout=FILES_KEPT_S)
            return


def _without(grant: DeviceGrant, sources: Collection[str]) -> DeviceGrant:
    binds: tuple[BoundPath, ...] = tuple(bind for bind in grant.binds if bind.source not in sources)
    return replace(grant, binds=binds)


def meter_spec(
    vendor: str, request: ProbeRequest, image_id: str, grant: DeviceGrant, *, root: str = "/"
) -> HelperSpec:
    """Return the meter of one vendor's devices. `root` holds the machine's /sys and /dev. It sees the
    machine's processes where a library is to tell which of them use a device.
    """
    return HelperSpec(
        name=meter_name(vendor),
        image=image_id,
        labels=helper_labels(ROLE),
        command=meter_command(request, python="python3", folder=HELPER_FILES_AT, root=MOUNTED_AT),
        files=program_files(),
        mounts=machine_mounts(root),
        grant=grant,
        sees_processes=bool(request.given_drivers),
        mem_bytes=METER_MEM_BYTES,
        log_bytes=METER_LOG_BYTES,
    )
