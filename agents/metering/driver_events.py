"""Acts on events of drivers (NVIDIA's Xid) that meters tell, between the looks that judge all else."""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from django.db import transaction

from agents.accelerators.description import vendor_named
from agents.accelerators.health import judge_xids
from agents.machines.split_devices import with_partitions
from agents.machines.withholding import warn_of_device, withhold_devices
from agents.metering.sources import MeasuredDevice
from agents.models import Agent, AgentDevice, DeviceReading, Withheld

log = structlog.get_logger(__name__)
XIDS = "xids"


def judge_driver_events(
    devices: Mapping[int, Sequence[MeasuredDevice]], told: Mapping[int, Mapping[int, Mapping[str, Any]]]
) -> None:
    """Warn of devices, or put them into quarantine, for events that their last stored reading did not
    have. `told`: the values of the health source by agent and device. One query where any tell events.
    """
    telling = {
        agent_id: {pk: values[XIDS] for pk, values in health.items() if values.get(XIDS)}
        for agent_id, health in told.items()
    }
    rows = DeviceReading.objects.filter(agent__in=[pk for pk, found in telling.items() if found])
    before = {} if not any(telling.values()) else dict(rows.values_list("agent_id", "health"))
    for agent_id, found in telling.items():
        for device in devices[agent_id]:
            if device.pk in found:
                last = before.get(agent_id, {}).get(str(device.pk), {})
                _judge(agent_id, device, last.get(XIDS), found[device.pk])


def _judge(agent_id: int, device: MeasuredDevice, before: Any, now: Any) -> None:
    vendor = vendor_named(device.vendor)
    if vendor is None:
        return
    verdict = judge_xids(vendor.health, before, now)
    if verdict.state == "ok":
        return
    log.warning("devices.driver_event", agent_id=agent_id, device_id=device.pk, xids=now)
    with transaction.atomic():
        Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
        row = AgentDevice.objects.filter(pk=device.pk).first()
        if row is None:
            return
        if verdict.state == "quarantine":
            withhold_devices(
                agent_id, with_partitions(row), kind=Withheld.QUARANTINE, because=verdict.because
            )
        else:
            warn_of_device(row, verdict.because)
