"""Computes sessions' utilisation over a window, in percent of the allocation, from kernel metrics."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from common.values.resources import CPU, MEM, ResourceSlots
from sessions_app.core.idle_rules import DEVICE, DEVICE_MEM, utilization_percent
from sessions_app.metrics.accelerators import (
    NOT_MEASURED,
    Amount,
    DeviceShare,
    amounts_of,
    device_milli_of,
    known_sum,
)
from sessions_app.metrics.collector import MINUTE_S
from sessions_app.models import ComputeSession, Kernel, KernelMetric, KernelUsage

RECENT = timedelta(minutes=5)
MIN_COVERAGE = 0.8
"""Minimum part of the minutes that must have been measured."""

BUSY_PERCENT = 5
"""Minimum use of a device over the last minutes that counts as computing."""

BUSY_MILLI = 100
"""Millicores that count as computing; in a small session, half of its allocation."""

DRIVES_MILLI = 10
"""Minimum millicores of a program that drives a device, at most half of the allocation. On shared
devices it identifies the sessions that may be computing.
"""

_MEASURED = ("cpu_milli", "mem_bytes", "device_activity", "device_mem_bytes")
_MEASUREMENTS = f"""
    FROM unnest(%(sessions)s::uuid[], %(since)s::timestamptz[], %(drives)s::bigint[]) AS asked (session_id, since, drives)
    JOIN {Kernel._meta.db_table} AS kernel ON kernel.session_id = asked.session_id
    LEFT JOIN {KernelMetric._meta.db_table} AS metric ON metric.kernel_id = kernel.id AND metric.span_s = {MINUTE_S}
        AND metric.at >= asked.since AND metric.at < %(until)s
"""
MEANS = f"""
    SELECT kernel.session_id, kernel.requested_slots, share.device_milli, share.device_count, share.device_mem_total, share.devices_are_own,
        {", ".join(f"count(metric.{name}), avg(metric.{name})" for name in _MEASURED)}
    {_MEASUREMENTS} LEFT JOIN {KernelUsage._meta.db_table} AS share ON share.kernel_id = kernel.id
    GROUP BY kernel.session_id, kernel.id, share.kernel_id
"""
COMPUTING_ON_DEVICES = f"""
    SELECT kernel.session_id {_MEASUREMENTS} JOIN {KernelUsage._meta.db_table} AS share ON share.kernel_id = kernel.id
    GROUP BY kernel.session_id, kernel.id, share.kernel_id, asked.drives
    HAVING avg(metric.device_activity) * share.device_count >= %(least)s
       AND (share.devices_are_own OR avg(metric.cpu_milli) >= asked.drives)
"""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Session and the span before now to measure."""

    session: ComputeSession
    span: timedelta


def utilization_by_session(wanted: Sequence[Measurement], now: datetime) -> dict[UUID, dict[str, int | None]]:
    """Return {session id: {name: percent of the allocation; None if too little was measured}}.

    One query.
    """
    amounts = _amounts_of_kernels(wanted, now)
    return {each.session.pk: _percents(each.session, amounts.get(each.session.pk, [])) for each in wanted}


def computing_on_cpu(wanted: Sequence[Measurement], now: datetime) -> dict[UUID, bool | None]:
    """Return {session id: True if its kernels compute; None if too little was measured}. One query.

    Uses the absolute `BUSY_MILLI`: one busy core of many is less than any percentage, and a small
    session never uses a whole core.
    """
    amounts = _amounts_of_kernels(wanted, now)
    return {each.session.pk: _is_busy(amounts.get(each.session.pk, [])) for each in wanted}


def _is_busy(kernels: Sequence[Mapping[str, Amount]]) -> bool | None:
    used = known_sum([kernel[CPU].used for kernel in kernels])
    allocated = sum(kernel[CPU].allocated for kernel in kernels)
    return None if used is None else used >= at_most_half(BUSY_MILLI, allocated)


def at_most_half(milli: int, allocated: int) -> int:
    """Return `milli`, or half of the allocation if that is less."""
    return min(milli, allocated // 2)


def _amounts_of_kernels(wanted: Sequence[Measurement], now: datetime) -> dict[UUID, list[dict[str, Amount]]]:
    """Return {session id: used and allocated amounts of each kernel}. One query."""
    amounts: dict[UUID, list[dict[str, Amount]]] = {}
    if not wanted:
        return amounts
    sessions = {each.session.pk: each for each in wanted}
    with connection.cursor() as cursor:
        cursor.execute(MEANS, _query_values(wanted, now))
        for session_id, own_slots, milli, count, mem_total, are_own, *measured in cursor.fetchall():
            share = None if count is None else DeviceShare(milli, count, mem_total, are_own)
            means = _covered(measured, sessions[session_id].span)
            session = sessions[session_id].session
            slots = session.slots if own_slots is None else ResourceSlots(json.loads(own_slots))
            amounts.setdefault(session_id, []).append(_amounts(slots, share, means))
    return amounts


def computing_on_devices(wanted: Sequence[Measurement], now: datetime) -> set[UUID]:
    """Return the sessions with a kernel whose devices compute. One query.

    On shared devices only sessions that also use the CPU, because one of them must be driving it.
    """
    if not wanted:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(COMPUTING_ON_DEVICES, _query_values(wanted, now) | {"least": BUSY_PERCENT})
        return {session_id for (session_id,) in cursor.fetchall()}


def _query_values(wanted: Sequence[Measurement], now: datetime) -> dict[str, Any]:
    return {
        "sessions": [each.session.pk for each in wanted],
        "since": [now - each.span for each in wanted],
        "drives": [at_most_half(DRIVES_MILLI, each.session.slots[CPU]) for each in wanted],
        "until": now,
    }


def _covered(measured: Sequence[Any], span: timedelta) -> list[int | None]:
    """Return the means of (count, mean) pairs; None where too few minutes were measured."""
    least = MIN_COVERAGE * span.total_seconds() / MINUTE_S
    return [
        int(mean) if times >= least else None
        for times, mean in zip(measured[::2], measured[1::2], strict=True)
    ]


def _amounts(
    slots: ResourceSlots, share: DeviceShare | None, means: Sequence[int | None]
) -> dict[str, Amount]:
    """Return used and allocated amounts of one kernel, by name."""
    cpu, mem, activity, device_mem = means
    found = {CPU: Amount(cpu, slots[CPU]), MEM: Amount(mem, slots[MEM])}
    if device_milli_of(slots):
        of_devices = (
            (NOT_MEASURED, NOT_MEASURED) if share is None else amounts_of(share, activity, device_mem)
        )
        found[DEVICE], found[DEVICE_MEM] = of_devices
    return found


def _percents(session: ComputeSession, kernels: Sequence[Mapping[str, Amount]]) -> dict[str, int | None]:
    """Return percent by name over all kernels that have it; None if one of them was not measured."""
    has_devices = device_milli_of(session.slots) > 0
    names = (CPU, MEM, DEVICE, DEVICE_MEM) if has_devices else (CPU, MEM)
    having = {name: [kernel[name] for kernel in kernels if name in kernel] for name in names}
    return {
        name: utilization_percent(
            known_sum([amount.used for amount in amounts]), sum(amount.allocated for amount in amounts)
        )
        for name, amounts in having.items()
    }
