"""Measures the accelerators of all machines every ten seconds, and rolls the measurements up.

One round measures each machine once, for the metrics of sessions as well. One row per machine and
instant holds the values of all its devices: samples for an hour, minutes for a day, quarter hours
for 30 days. Means of use are rounded up, so that little use is not nothing. What a device does not
report is null or absent, never zero.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import structlog
from django.db import connection, transaction
from psycopg.types.json import Jsonb

from agents.accelerators.base import DeviceUse
from agents.core.states import AgentState
from agents.metering.health import judge_measured
from agents.metering.scrape import MeasuredDevice, Measurement, measure_simulated, read_meters
from agents.models import Agent, AgentDevice, DeviceMetric, DeviceReading
from common import clock
from common.resilience.keyed_pool import KeyedPool

log = structlog.get_logger(__name__)

SAMPLE_S, MINUTE_S, QUARTER_S = 10, 60, 900
KEPT = {SAMPLE_S: timedelta(hours=1), MINUTE_S: timedelta(days=1), QUARTER_S: timedelta(days=30)}
THREADS = 32
ROUND_S = 5
"""Seconds until a round goes on without the machines that have not answered."""
SMALLINT_MAX = 2**15 - 1

SERIES = {"percent": "smallint", "mem_bytes": "bigint", "watts": "float8", "celsius": "smallint"}
_MOST = tuple(f"{name}_max" for name in SERIES)
_NAMES = ("devices", *SERIES)
_PRESENT = SERIES | {"activity": "smallint"}
_METRICS, _READINGS = DeviceMetric._meta.db_table, DeviceReading._meta.db_table
STORE = f"""
    WITH measured AS (
        SELECT agent_id, devices::bigint[] AS devices, processes, health,
            {", ".join(f"{name}::{kind}[] AS {name}" for name, kind in _PRESENT.items())}
        FROM unnest(%s::bigint[], %s::jsonb[], %s::jsonb[], %s::text[]{", %s::text[]" * len(_PRESENT)})
            AS row (agent_id, processes, health, devices, {", ".join(_PRESENT)})
        WHERE EXISTS (SELECT FROM {Agent._meta.db_table} AS agent WHERE agent.id = agent_id)
    ), sampled AS (
        INSERT INTO {_METRICS} (agent_id, span_s, at, {", ".join(_NAMES)})
        SELECT agent_id, {SAMPLE_S}, %s, {", ".join(_NAMES)} FROM measured
        ON CONFLICT DO NOTHING
    )
    INSERT INTO {_READINGS} (agent_id, at, processes, health, devices, {", ".join(_PRESENT)})
    SELECT agent_id, %s, processes, health, devices, {", ".join(_PRESENT)} FROM measured
    ON CONFLICT (agent_id) DO UPDATE SET at = excluded.at, processes = excluded.processes,
        health = excluded.health, devices = excluded.devices, {", ".join(f"{name} = excluded.{name}" for name in _PRESENT)}
"""
_MEANS = {
    "percent": "ceil(avg(percent))", "mem_bytes": "round(avg(mem_bytes))", "watts": "avg(watts)",
    "celsius": "round(avg(celsius))",
}  # fmt: skip
ROLL_UP = f"""
    INSERT INTO {_METRICS} (agent_id, span_s, at, {", ".join((*_NAMES, *_MOST))})
    SELECT agent_id, %(to_s)s, bin, array_agg(device ORDER BY device),
        {", ".join(f"array_agg({name} ORDER BY device)" for name in (*SERIES, *_MOST))}
    FROM (
        SELECT agent_id, date_bin(make_interval(secs => %(to_s)s), at, timestamptz 'epoch') AS bin, device,
            {", ".join(f"{mean}::{SERIES[name]} AS {name}" for name, mean in _MEANS.items())},
            {", ".join(f"max(coalesce({name}_max, {name})) AS {name}_max" for name in SERIES)}
        FROM (
            SELECT metric.agent_id, metric.at, value.*
            FROM {_METRICS} AS metric,
                unnest({", ".join(f"metric.{name}" for name in (*_NAMES, *_MOST))})
                    AS value (device, {", ".join((*SERIES, *_MOST))})
            WHERE metric.span_s = %(from_s)s AND metric.at >= %(since)s AND metric.at < %(until)s
        ) AS single
        GROUP BY 1, 2, 3
    ) AS spans
    GROUP BY 1, 3
    ON CONFLICT DO NOTHING
"""
ROLLED_UP_UNTIL = f"SELECT max(at) FROM {_METRICS} WHERE span_s = %s AND at <= %s"
DELETE_OLD = f"DELETE FROM {_METRICS} WHERE span_s = %s AND (at < %s OR at > %s)"


@dataclass(frozen=True, slots=True)
class MachineReading:
    """Uses of the devices of one machine, with the primary keys of their rows, and their health."""

    agent_id: int
    uses: Sequence[tuple[int, DeviceUse]]
    health: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)


_pool = KeyedPool[Measurement]("devices", THREADS)


def measure_devices() -> None:
    """Run one round over all machines with accelerators. 4 statements for any number of them; 6 more
    once a minute.
    """
    now = clock.now()
    devices = _devices_by_agent()
    agents = Agent.objects.in_bulk(devices)
    simulated = {
        pk: partial(measure_simulated, agent, devices[pk])
        for pk, agent in agents.items()
        if agent.is_simulated
    }
    metered = {agent: devices[pk] for pk, agent in agents.items() if not agent.is_simulated}
    measured = _pool.run(simulated, timeout_s=ROUND_S)
    if metered:
        measured |= read_meters(metered, within_s=ROUND_S)
    readings = [_reading(pk, devices[pk], found) for pk, found in measured.items()]
    judge_measured(agents, devices, {reading.agent_id: reading.health for reading in readings})
    store_readings(readings, now)
    roll_up(now)


def _devices_by_agent() -> dict[int, list[MeasuredDevice]]:
    """Return the devices of the machines that should answer, by agent id. One query."""
    watched = [state for state in AgentState if state.is_watched]
    present = AgentDevice.objects.filter(is_present=True, agent__state__in=watched, agent__last_error="")
    found: dict[int, list[MeasuredDevice]] = {}
    for agent_id, *values in present.order_by().values_list("agent_id", *MeasuredDevice._fields).iterator():
        found.setdefault(agent_id, []).append(MeasuredDevice(*values))
    return found


def _reading(agent_id: int, devices: Iterable[MeasuredDevice], found: Measurement) -> MachineReading:
    pks = {device.device_id: device.pk for device in devices}
    uses = [(pks[use.device_id], use) for use in found.uses if use.device_id in pks]
    health = {pks[device_id]: values for device_id, values in found.health.items() if device_id in pks}
    return MachineReading(agent_id, sorted(uses, key=lambda pair: pair[0]), health)


def store_readings(readings: Sequence[MachineReading], now: datetime) -> None:
    """Store the readings as samples and as the present values. One statement, none without devices."""
    known = [reading for reading in readings if reading.uses]
    if not known:
        return
    columns = [[_array([pk for pk, _ in reading.uses]) for reading in known]]
    for name, kind in _PRESENT.items():
        most = SMALLINT_MAX if kind == "smallint" else None
        columns.append(
            [_array([_limited(getattr(use, name), most) for _, use in reading.uses]) for reading in known]
        )
    with connection.cursor() as cursor:
        cursor.execute(
            STORE,
            [
                [reading.agent_id for reading in known],
                [Jsonb(_processes(reading)) for reading in known],
                [Jsonb({str(pk): dict(values) for pk, values in reading.health.items()}) for reading in known],
                *columns, now, now,
            ],
        )  # fmt: skip


def _processes(reading: MachineReading) -> dict[str, Any]:
    return {
        str(pk): [[each.pid, each.mem_bytes, each.percent] for each in use.processes]
        for pk, use in reading.uses
        if use.processes is not None
    }


def _limited(value: float | None, most: int | None) -> float | None:
    return value if value is None or most is None else max(-most, min(int(value), most))


def _array(values: Iterable[float | None]) -> str:
    """Return the text of an array for PostgreSQL: arrays of different lengths are no parameter."""
    return "{" + ",".join("NULL" if value is None else str(value) for value in values) + "}"


def roll_up(now: datetime) -> None:
    """Roll complete minutes and quarter hours up that are not yet, and delete what is too old. One
    statement where no minute has ended since.
    """
    if not _roll_up_span(SAMPLE_S, MINUTE_S, now):
        return
    _roll_up_span(MINUTE_S, QUARTER_S, now)
    with connection.cursor() as cursor:
        for span_s, kept in KEPT.items():
            # Rows of the future, from before a clock was set back, would take the place of others.
            cursor.execute(DELETE_OLD, [span_s, now - kept, now + timedelta(seconds=span_s)])


def _roll_up_span(from_s: int, to_s: int, now: datetime) -> bool:
    """Summarise the complete spans since the last one; return True if there were any."""
    until = clock.start_of(now, to_s)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(ROLLED_UP_UNTIL, [to_s, now])
        [last] = cursor.fetchone()
        since = clock.start_of(now - KEPT[from_s], to_s) if last is None else last + timedelta(seconds=to_s)
        if since < until:
            cursor.execute(ROLL_UP, {"from_s": from_s, "to_s": to_s, "since": since, "until": until})
    return bool(since < until)
