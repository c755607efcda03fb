"""Present use and health of machines' accelerators: simulated ones directly, all others by the last
line of their meters. Calls machines, never the database.
"""

import asyncio
import json
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, NamedTuple

import structlog
from django.core.cache import cache

from agents.accelerators.base import AcceleratorDevice, DeviceUse
from agents.accelerators.description import VendorDescription, vendor_named
from agents.accelerators.report import MachineReport
from agents.accelerators.report_parser import read_health, read_uses
from agents.metering.meter_containers import meter_name
from agents.models import Agent
from agents.runtime.port import ContainerGone, RuntimeFault
from agents.runtime.registry import close_async_runtimes
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.selectors import async_runtime_of, runtime_of

log = structlog.get_logger(__name__)
LINE_KEPT_S = 3600


class MeasuredDevice(NamedTuple):
    """Row of a device, as far as measuring it needs."""

    pk: int
    device_id: str
    vendor: str
    profile: str
    facts: Mapping[str, str | int]
    occupied: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """Uses of devices, and {device id: values of its vendor's health source}. What a device does not
    tell is absent.
    """

    uses: tuple[DeviceUse, ...] = ()
    health: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __or__(self, other: "Measurement") -> "Measurement":
        return Measurement(self.uses + other.uses, {**self.health, **other.health})


def measure_simulated(agent: Agent, devices: Sequence[MeasuredDevice]) -> Measurement:
    """Measure the devices of a simulated machine."""
    runtime = runtime_of(agent)
    if not isinstance(runtime, SimulatedRuntime):
        return Measurement()  # measured by its meters
    held = {each.device_id for each in devices if each.occupied}
    uses = runtime.accelerators.measure(held)
    return Measurement(tuple(replace(use, activity=use.percent) for use in uses))


def read_meters(
    machines: Mapping[Agent, Sequence[MeasuredDevice]], *, within_s: float
) -> dict[int, Measurement]:
    """Return {agent id: what its meters told last}, of those that answer in time and whose meters said
    something since the last call.
    """
    wanted = [
        (agent, vendor, own) for agent, devices in machines.items() for vendor, own in by_vendor(devices)
    ]
    lines = _run(_read_lines([(agent, vendor.name) for agent, vendor, _ in wanted], within_s))
    before = cache.get_many(map(_line_key, lines))
    numbers, found = {}, dict[int, Measurement]()
    for agent, vendor, own in wanted:
        key = agent.pk, vendor.name
        report = _parsed(lines.get(key, b""))
        number = report.pop("line", None)
        if number is None or before.get(_line_key(key)) == number:
            continue
        numbers[_line_key(key)] = number
        try:
            measured = interpret(vendor, own, MachineReport.from_json(report))
        except (TypeError, ValueError, AttributeError) as error:
            log.warning("metering.unreadable", agent=agent.name, vendor=vendor.name, error=str(error))
            continue
        found[agent.pk] = found.get(agent.pk, Measurement()) | measured
    cache.set_many(numbers, timeout=LINE_KEPT_S)
    return found


def by_vendor(
    devices: Iterable[MeasuredDevice],
) -> list[tuple[VendorDescription, list[MeasuredDevice]]]:
    """Return the vendors whose devices can be measured, with their devices."""
    groups = groupby(sorted(devices, key=lambda each: each.vendor), key=lambda each: each.vendor)
    known = [(vendor_named(name), list(own)) for name, own in groups]
    return [(vendor, own) for vendor, own in known if vendor is not None and vendor.measure.sources]


def interpret(
    vendor: VendorDescription, devices: Sequence[MeasuredDevice], report: MachineReport
) -> Measurement:
    """Return what a report tells of these devices of the vendor."""
    known = [
        AcceleratorDevice(
            vendor=vendor.name, slot_name=vendor.slot, device_id=each.device_id, index=0, model="", mem_bytes=0,
            profile=each.profile, facts=each.facts,
        )
        for each in devices
    ]  # fmt: skip
    return Measurement(read_uses(vendor, known, report), read_health(vendor, known, report))


def _line_key(meter: tuple[int, str]) -> str:
    return f"meter:{meter[0]}:{meter[1]}"


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        report = json.loads(line)
    except ValueError:  # none yet, or longer than what is read
        return {}
    return report if isinstance(report, dict) else {}


async def _read_lines(meters: Sequence[tuple[Agent, str]], within_s: float) -> dict[tuple[int, str], bytes]:
    found: dict[tuple[int, str], bytes] = {}

    async def read(agent: Agent, vendor: str) -> None:
        try:
            found[agent.pk, vendor] = await async_runtime_of(agent).read_last_line(meter_name(vendor))
        except ContainerGone:
            return  # not deployed yet, or being replaced
        except RuntimeFault as fault:
            log.warning("metering.unread", agent=agent.name, vendor=vendor, error=str(fault))

    tasks = [asyncio.create_task(read(*meter)) for meter in meters]
    try:
        _, late = await asyncio.wait(tasks, timeout=within_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await close_async_runtimes()
    return found


def _run(reading: Coroutine[Any, Any, dict[tuple[int, str], bytes]]) -> dict[tuple[int, str], bytes]:
    """Run the coroutine in an event loop of its own; `asyncio.run` would also wait for threads that
    resolve names.
    """
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(reading)
    finally:
        loop.close()
