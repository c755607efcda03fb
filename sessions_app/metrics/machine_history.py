"""Reads what a machine's sessions used of it together, and what they held, over time."""

from datetime import timedelta
from typing import Any

from django.db import connection

from agents.models import Agent
from common import clock
from common.values.resources import CPU, MEM
from sessions_app.metrics.collector import MINUTE_S, MINUTES_KEPT, QUARTER_S, SAMPLE_S, SAMPLES_KEPT
from sessions_app.metrics.device_history import MACHINE_LENGTHS, MachineWindow
from sessions_app.metrics.history import MAX_POINTS
from sessions_app.models import ComputeSession, Kernel, KernelMetric

SERIES = ("cpu_milli", "mem_bytes", "net_received", "net_sent", "disk_read", "disk_written")
HELD = {CPU: "cpu_milli_held", MEM: "mem_bytes_held"}
STEP_OF_SAMPLES_S = 30
"""Some three samples of each kernel: with one, a late sample would be missing in the sum."""

# Samples are averaged for each kernel. Longer spans count by their part of the step, so that short
# sessions one after the other are not added up.
_USED = f"""
    SELECT extract(epoch FROM bin)::bigint, {", ".join(f"round(sum({name}))::bigint" for name in SERIES)}
    FROM (
        SELECT date_bin(make_interval(secs => %(step)s), metric.at, timestamptz 'epoch') AS bin,
            {", ".join(f"avg({name}) * CASE WHEN %(is_sampled)s THEN 1 ELSE least(1, sum(span_s)::float / %(step)s) END AS {name}" for name in SERIES)}
        FROM {KernelMetric._meta.db_table} AS metric JOIN {Kernel._meta.db_table} AS kernel ON kernel.id = metric.kernel_id
        WHERE kernel.agent_id = %(agent)s AND span_s = ANY(%(spans)s) AND metric.at >= %(since)s AND metric.at < %(until)s
        GROUP BY bin, metric.kernel_id
    ) AS used
    GROUP BY bin
"""
_HELD = f"""
    SELECT extract(epoch FROM bin)::bigint, sum(part * cpu)::bigint, sum(part * mem)::bigint
    FROM (
        SELECT bin, coalesce((slots ->> '{CPU}')::bigint, 0) AS cpu, coalesce((slots ->> '{MEM}')::bigint, 0) AS mem,
            extract(epoch FROM least(until, bin + make_interval(secs => %(step)s)) - greatest(since, bin)) / %(step)s AS part
        FROM (
            SELECT coalesce(kernel.requested_slots, session.requested_slots) AS slots, session.started_at AS since,
                coalesce(kernel.ended_at, session.ended_at, %(until)s) AS until
            FROM {Kernel._meta.db_table} AS kernel JOIN {ComputeSession._meta.db_table} AS session ON session.id = kernel.session_id
            WHERE kernel.agent_id = %(agent)s AND session.started_at < %(until)s
              AND (session.ended_at IS NULL OR session.ended_at > %(since)s)
        ) AS stay, generate_series(
            date_bin(make_interval(secs => %(step)s), greatest(since, %(since)s), timestamptz 'epoch'),
            least(until, %(until)s) - interval '1 microsecond', make_interval(secs => %(step)s)
        ) AS bin
    ) AS held
    GROUP BY bin
"""


def agent_metrics(agent: Agent, window: MachineWindow) -> dict[str, Any]:
    """Return what the sessions of a machine used and held together over the window, as means.

    The form is that of `session_metrics`, with one part for the machine, whose limits are its
    capacity. Used is null where sessions ran and none was measured, 0 where none ran. At most 360
    points; two queries.
    """
    now = clock.now()
    step_s, spans = _resolution(MACHINE_LENGTHS[window])
    until = clock.start_of(now, step_s)
    since = clock.start_of(until - MACHINE_LENGTHS[window], step_s)
    values = {
        "agent": agent.pk, "since": since, "until": until, "step": step_s, "spans": list(spans),
        "is_sampled": spans == (SAMPLE_S,),
    }  # fmt: skip
    used, held = _read(_USED, values), _read(_HELD, values)
    at = range(int(since.timestamp()), int(until.timestamp()), step_s)
    idle, unknown = (0,) * len(SERIES), (None,) * len(SERIES)
    points = [used.get(each, unknown if each in held else idle) for each in at]
    capacity = agent.capacity
    return {
        "window": window.value,
        "step_s": step_s,
        "unmeasured_since": None,
        "kernels": [
            {
                "name": agent.name,
                "limits": {"cpu_milli": capacity[CPU], "mem_bytes": capacity[MEM], "device_milli": 0},
                "at": list(at),
                **{name: [point[index] for point in points] for index, name in enumerate(SERIES)},
                **{
                    name: [held.get(each, (0, 0))[index] for each in at]
                    for index, name in enumerate(HELD.values())
                },
            }
        ],
    }


def _resolution(length: timedelta) -> tuple[int, tuple[int, ...]]:
    """Return the seconds per point, and the spans to read, for a window of this length."""
    if length <= SAMPLES_KEPT:
        return STEP_OF_SAMPLES_S, (SAMPLE_S,)
    unit_s = MINUTE_S if length <= MINUTES_KEPT else QUARTER_S
    step_s = unit_s * -(-int(length.total_seconds()) // (unit_s * MAX_POINTS))
    return step_s, (MINUTE_S, QUARTER_S) if step_s >= QUARTER_S else (MINUTE_S,)


def _read(query: str, values: dict[str, Any]) -> dict[int, tuple[int | None, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return {at: tuple(amounts) for at, *amounts in cursor.fetchall()}
