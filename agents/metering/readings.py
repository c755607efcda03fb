"""Reads of measurements of accelerators."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.utils.translation import gettext as _

from agents.accelerators.base import DeviceProcess, DeviceUse
from agents.metering.collector import KEPT, MINUTE_S, QUARTER_S, SAMPLE_S, SERIES
from agents.models import DeviceMetric, DeviceReading
from common.values.resources import format_bytes

PRESENT_FOR = timedelta(seconds=30)
"""Age up to which a reading counts as present: two rounds may fail."""
MAX_POINTS = 360

_MOST = tuple(f"{name}_max" for name in SERIES)
READ_POINTS = f"""
    SELECT value.device,
        extract(epoch FROM date_bin(make_interval(secs => %(step)s), metric.at, timestamptz 'epoch'))::bigint AS bin,
        round(avg(value.percent))::int, round(avg(value.mem_bytes))::bigint, avg(value.watts),
        round(avg(value.celsius))::int,
        {", ".join(f"max(coalesce(value.{name}_max, value.{name}))" for name in SERIES)}
    FROM {DeviceMetric._meta.db_table} AS metric,
        unnest({", ".join(f"metric.{name}" for name in ("devices", *SERIES, *_MOST))})
            AS value (device, {", ".join((*SERIES, *_MOST))})
    WHERE metric.agent_id = ANY(%(agents)s) AND metric.span_s = ANY(%(spans)s)
        AND metric.at >= %(since)s AND metric.at <= %(until)s AND value.device = ANY(%(devices)s)
    GROUP BY 1, 2 ORDER BY 1, 2
"""


def present_uses(agent_ids: Collection[int], now: datetime) -> dict[int, DeviceUse]:
    """Return {primary key of a device: its use} of the machines that were measured within
    PRESENT_FOR. One query.
    """
    readings = DeviceReading.objects.filter(
        agent__in=agent_ids, at__gte=now - PRESENT_FOR, at__lte=now + PRESENT_FOR
    )
    return {pk: use for reading in readings for pk, use in uses_of(reading)}


def present_percents(now: datetime) -> dict[int, float]:
    """Return {primary key of a device: its use in percent} of all devices whose use was measured within
    PRESENT_FOR. One query.
    """
    fresh = DeviceReading.objects.filter(at__gte=now - PRESENT_FOR).values_list(
        "devices", "activity", "percent"
    )
    return {
        pk: value
        for devices, activities, percents in fresh
        for pk, activity, percent in zip(devices, activities, percents, strict=True)
        if (value := percent if activity is None else activity) is not None
    }


def mean_percents(agent_ids: Collection[int], now: datetime) -> dict[int, int]:
    """Return {agent id: mean use of its accelerators in percent, rounded up} of the machines that were
    measured within PRESENT_FOR. One query.
    """
    fresh = DeviceReading.objects.filter(agent__in=agent_ids, at__gte=now - PRESENT_FOR)
    found = {}
    for agent_id, percents in fresh.values_list("agent_id", "percent"):
        known = [percent for percent in percents if percent is not None]
        if known:
            found[agent_id] = -(-sum(known) // len(known))
    return found


def use_words(use: DeviceUse, mem_total_bytes: int) -> str:
    """Return what was measured in words: "37 %, 12 GiB of 80 GiB, 250 W, 61 °C"; "" if nothing was."""
    words = []
    if use.percent is not None:
        words.append(f"{use.percent} %")
    if use.mem_bytes is not None:
        used, total = format_bytes(use.mem_bytes), format_bytes(mem_total_bytes)
        words.append(_("{used} of {limit}").format(used=used, limit=total) if mem_total_bytes else used)
    if use.watts is not None:
        words.append(f"{round(use.watts)} W")
    if use.celsius is not None:
        words.append(f"{use.celsius} °C")
    return ", ".join(words)


def uses_of(reading: DeviceReading) -> Iterable[tuple[int, DeviceUse]]:
    """Yield the primary key and the use of each device."""
    names = (*SERIES, "activity")
    for pk, *values in zip(reading.devices, *(getattr(reading, name) for name in names), strict=True):
        told = reading.processes.get(str(pk))
        processes = None if told is None else tuple(DeviceProcess(*each) for each in told)
        yield pk, DeviceUse(device_id=str(pk), processes=processes, **dict(zip(names, values, strict=True)))


@dataclass(frozen=True, slots=True)
class SeriesGrid:
    """Part of the past to read, and seconds per point."""

    since: datetime
    until: datetime
    step_s: int
    spans: tuple[int, ...]


def series_grid(since: datetime, until: datetime, now: datetime) -> SeriesGrid:
    """Return the grid of at most MAX_POINTS points: of samples where they are still kept, else of
    minutes and quarter hours.
    """
    if since >= now - KEPT[SAMPLE_S]:
        return SeriesGrid(since, until, SAMPLE_S, (SAMPLE_S,))
    unit_s, spans = (MINUTE_S, (MINUTE_S,)) if since >= now - KEPT[MINUTE_S] else (QUARTER_S, (QUARTER_S,))
    return SeriesGrid(
        since,
        until,
        unit_s * max(1, -(-int((until - since).total_seconds()) // (unit_s * MAX_POINTS))),
        spans,
    )


def device_series(
    agent_ids: Sequence[int], device_ids: Sequence[int], grid: SeriesGrid
) -> Mapping[int, dict[str, list[Any]]]:
    """Return {primary key of a device: {"at": [epoch seconds], "<series>": [mean], "<series>_max"}}.
    One query.
    """
    names = ("at", *SERIES, *_MOST)
    found: dict[int, dict[str, list[Any]]] = {pk: {name: [] for name in names} for pk in device_ids}
    values: dict[str, Any] = {
        "agents": list(agent_ids), "devices": list(device_ids), "step": grid.step_s, "spans": list(grid.spans),
        "since": grid.since, "until": grid.until,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(READ_POINTS, values)
        for pk, *point in cursor.fetchall():
            for name, value in zip(names, point, strict=True):
                found[pk][name].append(value)
    return found
