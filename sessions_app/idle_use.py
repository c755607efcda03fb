"""How much of what they hold sessions use, over a window: from what was measured of their kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from agents.models import ResourceGroup
from common.slots import CPU, MEM
from sessions_app.idle_rules import percent_of
from sessions_app.metrics import MINUTE_S
from sessions_app.models import ComputeSession, Kernel, KernelMetric

RECENT = timedelta(minutes=5)
COVERED = 0.8
"""The part of the minutes that must have been measured."""

DEVICE, DEVICE_MEM = "device", "device_mem"
COLUMNS = {CPU: "min_cpu_percent", MEM: "min_mem_percent", DEVICE: "min_device_percent", DEVICE_MEM: "min_device_mem_percent"}  # fmt: skip
MEANS = f"""
    SELECT kernel.session_id, count(metric.cpu_milli), avg(metric.cpu_milli), count(metric.mem_bytes), avg(metric.mem_bytes)
    FROM unnest(%(sessions)s::uuid[], %(since)s::timestamptz[]) AS asked (session_id, since)
    JOIN {Kernel._meta.db_table} AS kernel ON kernel.session_id = asked.session_id
    LEFT JOIN {KernelMetric._meta.db_table} AS metric ON metric.kernel_id = kernel.id AND metric.span_s = {MINUTE_S}
        AND metric.at >= asked.since AND metric.at < %(until)s
    GROUP BY kernel.session_id, kernel.id
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look at of a session: its last `span` before now."""

    session: ComputeSession
    span: timedelta


def thresholds_of(group: ResourceGroup) -> dict[str, int]:
    """The least use that the group wants, in percent by name."""
    found = {name: getattr(group, column) for name, column in COLUMNS.items()}
    return {name: percent for name, percent in found.items() if percent is not None}


def use_of(wanted: Sequence[Wanted], now: datetime) -> dict[UUID, dict[str, int | None]]:
    """{session: {name: percent, or None where too little was measured}}. One query. Of devices nothing is measured yet."""
    if not wanted:
        return {}
    asked: dict[str, Any] = {
        "sessions": [each.session.pk for each in wanted],
        "since": [now - each.span for each in wanted],
        "until": now,
    }
    rows: dict[UUID, list[tuple[int | None, int | None]]] = {}
    spans = {each.session.pk: each.span for each in wanted}
    with connection.cursor() as cursor:
        cursor.execute(MEANS, asked)
        for session_id, cpu_count, cpu, mem_count, mem in cursor.fetchall():
            least = COVERED * spans[session_id].total_seconds() / MINUTE_S
            means = (int(cpu) if cpu_count >= least else None, int(mem) if mem_count >= least else None)
            rows.setdefault(session_id, []).append(means)
    return {each.session.pk: _percents(each.session, rows.get(each.session.pk, [])) for each in wanted}


def _percents(
    session: ComputeSession, means: Sequence[tuple[int | None, int | None]]
) -> dict[str, int | None]:
    """Of all its kernels together; one that was not measured hides them all."""
    held = session.slots
    found = {
        name: percent_of(_sum([mean[index] for mean in means]), held[name] * len(means))
        for index, name in enumerate((CPU, MEM))
    }
    has_devices = any(name not in (CPU, MEM) and amount for name, amount in held.items())
    return {**found, DEVICE: None, DEVICE_MEM: None} if has_devices else found


def _sum(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None
