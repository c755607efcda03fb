"""Reads kernels' measured use for charts, as series of at most 360 points over a window."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F, Max

from common import clock
from common.values.resources import CPU, MEM
from sessions_app.metrics.accelerators import device_milli_of
from sessions_app.metrics.collector import (
    MINUTE_S,
    QUARTER_S,
    SAMPLE_S,
    SAMPLES_KEPT,
    SERIES,
    UNMEASURED_AFTER,
)
from sessions_app.models import ComputeSession, Kernel, KernelMetric, KernelUsage

MAX_POINTS = 360
CURRENT_S = 60

READ_POINTS = f"""
    SELECT kernel_id, extract(epoch FROM date_bin(make_interval(secs => %(step)s), at, timestamptz 'epoch'))::bigint AS bin,
        {", ".join(f"round(avg({name}))::bigint" for name in SERIES)},
        {", ".join(f"max(coalesce({name}_max, {name}))" for name in SERIES)}
    FROM {KernelMetric._meta.db_table}
    WHERE kernel_id = ANY(%(kernels)s) AND span_s = ANY(%(spans)s) AND at >= %(since)s AND at <= %(until)s
    GROUP BY 1, 2 ORDER BY 1, 2
"""


class Window(StrEnum):
    """Part of a session's life: the latest minutes, or all of it."""

    QUARTER = "15m"
    HOUR = "1h"
    ALL = "all"


LENGTHS = {Window.QUARTER: timedelta(minutes=15), Window.HOUR: timedelta(hours=1)}


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows to read, and seconds per point."""

    since: datetime
    until: datetime
    step_s: int
    spans: tuple[int, ...]


def chart_grid(session: ComputeSession, window: Window, now: datetime) -> Grid:
    """Return the grid for a window, which ends at the session's end or now.

    Reads samples where they are still kept, else minutes; a whole life with as many minutes per
    point as needed.
    """
    until = session.ended_at or now
    begin = session.started_at or until
    since = max(begin, until - LENGTHS[window]) if window in LENGTHS else begin
    since = clock.start_of(since, MINUTE_S)
    if since >= now - SAMPLES_KEPT - timedelta(seconds=MINUTE_S):
        return Grid(since, until, SAMPLE_S, (SAMPLE_S,))
    minutes = (until - since).total_seconds() / MINUTE_S
    step_s = MINUTE_S * max(1, -(-int(minutes + 1) // MAX_POINTS))
    return Grid(since, until, step_s, (MINUTE_S, QUARTER_S))


def session_metrics(session: ComputeSession, window: Window, kernel: Kernel | None = None) -> dict[str, Any]:
    """Return the series of one kernel of a session, or of all, over the window.

    {"window", "step_s", "unmeasured_since", "kernels": [{"name", "limits", "at": [epoch seconds],
    "<series>": [mean], "<series>_max"}]}. Two queries while it runs, one when it has ended; one
    more if it has accelerators. The session must have come `with_parts`.
    """
    grid = chart_grid(session, window, clock.now())
    kernels = list(session.kernels.all()) if kernel is None else [kernel]
    ids = [kernel.pk for kernel in kernels]
    points, devices = _points(ids, grid), _devices_of(session, ids)
    return {
        "window": window.value,
        "step_s": grid.step_s,
        "unmeasured_since": unmeasured_since(session),
        "kernels": [
            {
                "name": kernel.name,
                "limits": {
                    "cpu_milli": kernel.slots[CPU],
                    "mem_bytes": kernel.slots[MEM],
                    "device_milli": device_milli_of(kernel.slots),
                    **_device_limits(devices.get(kernel.pk)),
                },
                **_columns(points.get(kernel.pk, [])),
            }
            for kernel in kernels
        ],
    }


def _devices_of(session: ComputeSession, kernel_ids: list[UUID]) -> dict[UUID, KernelUsage]:
    """Return the last known device share by kernel, if the session has accelerators.

    One query at most.
    """
    if not any(device_milli_of(kernel.slots) for kernel in session.kernels.all()):
        return {}
    return {usage.kernel_id: usage for usage in KernelUsage.objects.filter(kernel_id__in=kernel_ids)}


def _device_limits(usage: KernelUsage | None) -> dict[str, Any]:
    is_known = usage is not None and usage.device_count is not None
    return {
        "device_mem_bytes": usage.device_mem_total if usage is not None else None,
        "devices_are_shared": not usage.devices_are_own if usage is not None and is_known else None,
    }


def unmeasured_since(session: ComputeSession) -> datetime | None:
    """Return when a running session was last fully measured if over a minute ago, else None.

    Returns its start if it was never measured. The session must have come `with_parts`. One query,
    or none if it does not run.
    """
    now = clock.now()
    if not session.is_running or session.started_at is None or now - session.started_at < UNMEASURED_AFTER:
        return None
    ids = [kernel.pk for kernel in session.kernels.all()]
    newest = KernelMetric.objects.filter(kernel_id__in=ids).values("kernel_id").annotate(at=Max("at"))
    measured = dict(newest.values_list("kernel_id", "at"))
    oldest = min(measured.get(pk, session.started_at) for pk in ids)
    return oldest if now - oldest >= UNMEASURED_AFTER else None


def current_use(kernel: Kernel) -> dict[str, Any]:
    """Return the last sample of the kernel if it is at most CURRENT_S old, else {}. One query.

    {"at", "<series>", "devices_are_own"}.
    """
    since = clock.now() - timedelta(seconds=CURRENT_S)
    samples = KernelMetric.objects.filter(kernel_id=kernel.pk, span_s=SAMPLE_S, at__gte=since)
    own = F("kernel__usage__devices_are_own")
    return samples.order_by("-at").values("at", *SERIES, devices_are_own=own).first() or {}


@dataclass(frozen=True, slots=True)
class CurrentUse:
    """Use of a kernel in its last sample. None: unknown."""

    cpu_milli: int | None
    mem_bytes: int | None
    device_percent: int | None = None


def current_use_by_kernel(kernel_ids: Collection[UUID]) -> dict[UUID, CurrentUse]:
    """Return the use of each kernel that was measured within CURRENT_S. One query."""
    since = clock.now() - timedelta(seconds=CURRENT_S)
    samples = KernelMetric.objects.filter(kernel_id__in=kernel_ids, span_s=SAMPLE_S, at__gte=since)
    newest = samples.order_by("kernel_id", "-at").distinct("kernel_id")
    return {
        kernel_id: CurrentUse(*amounts)
        for kernel_id, *amounts in newest.values_list("kernel_id", "cpu_milli", "mem_bytes", "device_percent")
    }


def _points(kernel_ids: list[UUID], grid: Grid) -> dict[UUID, list[tuple[Any, ...]]]:
    found: dict[UUID, list[tuple[Any, ...]]] = {}
    values: dict[str, Any] = {
        "kernels": kernel_ids, "spans": list(grid.spans), "step": grid.step_s, "since": grid.since, "until": grid.until,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(READ_POINTS, values)
        for kernel_id, *point in cursor.fetchall():
            found.setdefault(kernel_id, []).append(tuple(point))
    return {kernel_id: points[-MAX_POINTS:] for kernel_id, points in found.items()}


def _columns(points: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    names = ("at", *SERIES, *(f"{name}_max" for name in SERIES))
    return {name: [point[index] for point in points] for index, name in enumerate(names)}
