"""Reads the measurements of single accelerators: of a session, and of a machine."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from agents.metering.readings import PRESENT_FOR, device_series, series_grid
from agents.models import Agent, DeviceReading
from common import clock
from common.actors import Actor
from common.values.resources import MILLI
from sessions_app.metrics.allocated_devices import AllocatedDevice, allocated_devices
from sessions_app.metrics.history import LENGTHS, Window
from sessions_app.metrics.present_devices import Holder, present_devices
from sessions_app.models import ComputeSession


class MachineWindow(StrEnum):
    """Part of a machine's past."""

    QUARTER = "15m"
    HOUR = "1h"
    DAY = "1d"
    MONTH = "30d"


MACHINE_LENGTHS = {
    MachineWindow.QUARTER: timedelta(minutes=15),
    MachineWindow.HOUR: timedelta(hours=1),
    MachineWindow.DAY: timedelta(days=1),
    MachineWindow.MONTH: timedelta(days=30),
}


@dataclass(frozen=True, slots=True)
class ChartedDevice:
    """Device with what its charts need. `container`: the one that holds it, "" for a machine's."""

    pk: int
    agent_id: int
    agent: str
    container: str
    slot_name: str
    index: int
    device_id: str
    model: str
    mem_bytes: int
    share_milli: int
    own_mem_bytes: int | None = None
    holders: tuple[Holder, ...] = ()


def session_device_metrics(session: ComputeSession, window: Window) -> dict[str, Any]:
    """Return the series of each accelerator of a session over the window, while it holds them.

    {"window", "step_s", "unmeasured_since", "devices": [fields of `ChartedDevice` but keys, "limits",
    "at": [epoch seconds], "<series>": [mean], "<series>_max"}]}. Four queries, none without devices.
    """
    now = clock.now()
    charted = [_of_session(device) for device in allocated_devices(session)]
    since = now - LENGTHS[window] if window in LENGTHS else session.started_at or now
    return _metrics(charted, window.value, max(since, session.started_at or since), now)


def agent_device_metrics(actor: Actor, agent: Agent, window: MachineWindow) -> dict[str, Any]:
    """Return the series of each accelerator of a machine over the window, as of a session, with the
    sessions that hold them.
    """
    now = clock.now()
    charted = [
        ChartedDevice(
            pk=device.pk, agent_id=device.agent_id, agent=device.agent, container="", slot_name=device.slot_name,
            index=device.index, device_id=device.device_id, model=device.model, mem_bytes=device.mem_total_bytes,
            share_milli=MILLI, holders=device.holders,
        )
        for device in present_devices(actor, agent_id=agent.pk)
    ]  # fmt: skip
    return _metrics(charted, window.value, now - MACHINE_LENGTHS[window], now)


def _of_session(device: AllocatedDevice) -> ChartedDevice:
    return ChartedDevice(
        pk=device.pk, agent_id=device.agent_id, agent=device.agent, container=device.kernel,
        slot_name=device.slot_name, index=device.index, device_id=device.device_id, model=device.model,
        mem_bytes=device.mem_bytes, share_milli=device.share, own_mem_bytes=device.own_mem_bytes,
    )  # fmt: skip


def _metrics(devices: Iterable[ChartedDevice], window: str, since: datetime, now: datetime) -> dict[str, Any]:
    charted = list(devices)
    agent_ids = sorted({device.agent_id for device in charted})
    grid = series_grid(since, now, now)
    series = device_series(agent_ids, [device.pk for device in charted], grid) if charted else {}
    return {
        "window": window,
        "step_s": grid.step_s,
        "unmeasured_since": _unmeasured_since(agent_ids, now) if charted else None,
        "devices": [
            {
                **{name: getattr(device, name) for name in SHOWN},
                "mem_total_bytes": device.mem_bytes,
                "name": f"{device.slot_name} {device.index}",
                "limits": {"mem_bytes": device.mem_bytes or None},
                **series[device.pk],
            }
            for device in charted
        ],
    }


SHOWN = (
    "device_id", "agent", "container", "slot_name", "index", "model", "share_milli", "own_mem_bytes",
    "holders",
)  # fmt: skip


def _unmeasured_since(agent_ids: list[int], now: datetime) -> datetime | None:
    """Return when one of these machines was last measured if that is too long ago, else None."""
    oldest = (
        DeviceReading.objects.filter(agent__in=agent_ids).order_by("at").values_list("at", flat=True).first()
    )
    return oldest if oldest is not None and now - oldest > PRESENT_FOR else None
