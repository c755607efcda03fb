"""Accelerators as they are now: whose they are and what they do; and the most notable of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection

from accounts.selectors import sees_everything
from agents.core.device_states import IDLE_PERCENT, DeviceState, device_state
from agents.core.states import AgentState
from agents.metering.collector import MINUTE_S
from agents.metering.readings import PRESENT_FOR
from agents.models import Agent, AgentDevice, DeviceMetric, DeviceReading
from agents.selectors import visible_agents
from common import clock
from common.actors import Actor
from sessions_app.models import ComputeSession, Kernel, KernelAllocation, KernelUsage

TOP_SPAN = timedelta(minutes=15)
TOP = 20

_PRESENT = f"""
    SELECT device.id, device.agent_id, agent.name, agent.resource_group_id, device.slot_name, device.index,
        device.device_id, device.vendor, device.model, device.profile, device.parent_id, device.mem_bytes,
        device.occupied, device.is_present, device.withheld, device.withheld_because, device.warning,
        reading.at, reading.percent, reading.mem_bytes, reading.watts, reading.celsius, reading.activity, held.holders
    FROM {AgentDevice._meta.db_table} AS device
    JOIN {Agent._meta.db_table} AS agent ON agent.id = device.agent_id
    LEFT JOIN (
        SELECT machine.at, value.*
        FROM {DeviceReading._meta.db_table} AS machine,
            unnest(machine.devices, machine.percent, machine.mem_bytes, machine.watts, machine.celsius, machine.activity)
                AS value (device, percent, mem_bytes, watts, celsius, activity)
        WHERE machine.at > %(fresh)s
    ) AS reading ON reading.device = device.id
    LEFT JOIN (
        SELECT holder.device, array_agg(ARRAY[
            session.id::text, session.name, session.owner_id::text, (allocation.amount / cardinality(allocation.devices))::text,
            usage.own_device_mem ->> holder.device::text
        ] ORDER BY session.created_at) AS holders
        FROM {KernelAllocation._meta.db_table} AS allocation
        CROSS JOIN unnest(allocation.devices) AS holder (device)
        JOIN {Kernel._meta.db_table} AS kernel ON kernel.id = allocation.kernel_id
        JOIN {ComputeSession._meta.db_table} AS session ON session.id = kernel.session_id
        LEFT JOIN {KernelUsage._meta.db_table} AS usage ON usage.kernel_id = kernel.id
        GROUP BY holder.device
    ) AS held ON held.device = device.id
"""
_ORDER = "ORDER BY agent.name, device.slot_name, device.index, device.id"
_MEANS = f"""
    JOIN (
        SELECT value.device, avg(value.percent) AS percent, avg(value.mem_bytes) AS mem_bytes,
            max(value.celsius) AS celsius, count(value.percent) AS times
        FROM {DeviceMetric._meta.db_table} AS metric,
            unnest(metric.devices, metric.percent, metric.mem_bytes, metric.celsius)
                AS value (device, percent, mem_bytes, celsius)
        WHERE metric.span_s = {MINUTE_S} AND metric.at >= %(since)s AND metric.at <= %(now)s
        GROUP BY value.device
    ) AS mean ON mean.device = device.id
"""


class Top(StrEnum):
    """Order of notable devices: held by a session and idle, busiest, hottest."""

    WASTED = "wasted"
    BUSIEST = "busiest"
    HOTTEST = "hottest"


# Only devices of one allocation: nobody knows who of several does nothing. Measured for most of the span.
_TOP = {
    Top.WASTED: (
        f"device.occupied > 0 AND cardinality(held.holders) = 5 AND mean.percent < {IDLE_PERCENT} AND mean.times >= 12",
        "mean.mem_bytes DESC NULLS LAST",
    ),
    Top.BUSIEST: ("mean.percent IS NOT NULL", "mean.percent DESC"),
    Top.HOTTEST: ("mean.celsius IS NOT NULL", "mean.celsius DESC"),
}


@dataclass(frozen=True, slots=True)
class Holder:
    """Session that holds a device, or `milli` thousandths of it. `mem_bytes`: memory that its
    processes use there, where the driver tells. `session_id` and `name` are None if the reader may
    not know.
    """

    session_id: UUID | None
    name: str | None
    milli: int
    mem_bytes: int | None


@dataclass(frozen=True, slots=True)
class PresentDevice:
    """One accelerator now. `at`: instant of the measurement; None, as each of its values, if unknown."""

    pk: int
    agent_id: int
    agent: str
    resource_group_id: int
    slot_name: str
    index: int
    device_id: str
    vendor: str
    model: str
    profile: str
    parent_id: str
    mem_total_bytes: int
    occupied: int
    is_present: bool
    withheld: str
    withheld_because: str
    warning: str
    at: datetime | None
    percent: int | None
    mem_bytes: int | None
    watts: float | None
    celsius: int | None
    activity: int | None
    holders: tuple[Holder, ...]

    @property
    def state(self) -> DeviceState:
        return device_state(
            occupied=self.occupied,
            is_present=self.is_present,
            withheld=self.withheld,
            percent=self.activity,
        )

    @property
    def is_measured(self) -> bool:
        return self.at is not None

    @property
    def mem_percent(self) -> int | None:
        if self.mem_bytes is None or not self.mem_total_bytes:
            return None
        return min(100, 100 * self.mem_bytes // self.mem_total_bytes)


def present_devices(actor: Actor, *, agent_id: int | None = None) -> list[PresentDevice]:
    """Return the accelerators of the machines in use that the actor sees, or of one of them, by
    machine, slot and index. One query for those who see everything, else two. Others than they learn
    only of their own sessions.
    """
    where, values = "agent.state <> %(retired)s", _values()
    if agent_id is not None:
        where, values["agent"] = f"{where} AND agent.id = %(agent)s", agent_id
    if not sees_everything(actor):
        where += " AND agent.id = ANY(%(visible)s)"
        values["visible"] = list(visible_agents(actor).values_list("pk", flat=True))
    return _rows(actor, f"{_PRESENT} WHERE {where} {_ORDER}", values)


class PresentDevicePages:
    """All accelerators of the machines in use in the order of `present_devices`, read by slices, for
    actors who see everything. One query each.
    """

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def __len__(self) -> int:
        return AgentDevice.objects.exclude(agent__state=AgentState.RETIRED).count()

    def __getitem__(self, part: slice) -> list[PresentDevice]:
        start, stop = part.start or 0, part.stop
        page = f"OFFSET {int(start)}" + ("" if stop is None else f" LIMIT {int(stop) - int(start)}")
        return _rows(self._actor, f"{_PRESENT} WHERE agent.state <> %(retired)s {_ORDER} {page}", _values())


def top_devices(actor: Actor, by: Top) -> list[PresentDevice]:
    """Return at most TOP notable devices by their last quarter of an hour, for those who see
    everything. One query.
    """
    where, order = _TOP[by]
    query = f"{_PRESENT} {_MEANS} WHERE agent.state <> %(retired)s AND {where} ORDER BY {order}, device.id LIMIT {TOP}"
    return _rows(actor, query, _values()) if sees_everything(actor) else []


def _values() -> dict[str, Any]:
    now = clock.now()
    return {
        "retired": AgentState.RETIRED.value,
        "now": now,
        "fresh": now - PRESENT_FOR,
        "since": now - TOP_SPAN,
    }


def _rows(actor: Actor, query: str, values: dict[str, Any]) -> list[PresentDevice]:
    own = None if sees_everything(actor) else str(actor.user_id)
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return [PresentDevice(*(*row, _holders(held, own))) for *row, held in cursor.fetchall()]


def _holders(held: Sequence[Sequence[str | None]] | None, own: str | None) -> tuple[Holder, ...]:
    found = []
    for session_id, name, owner_id, milli, mem_bytes in held or ():
        is_known = own is None or owner_id == own
        found.append(
            Holder(
                UUID(session_id) if is_known and session_id else None,
                name if is_known else None,
                int(milli or 0),
                None if mem_bytes is None else int(mem_bytes),
            )
        )
    return tuple(found)
