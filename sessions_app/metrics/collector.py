"""Measures live kernels every ten seconds and stores samples, minutes and quarter hours.

Samples are kept for an hour. Minutes cover the session's life; while it runs, those older than a
day become quarter hours: at most 360 samples, 1,440 minutes and 2,880 quarters per kernel in its
30 days. Missing measurements stay missing and cause no failure; a kernel that was not measured for
a minute is logged, and its charts show it. Accelerators are measured by `agents.metering`, separately
from the engine, so that a hanging driver does not affect other measurements.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any
from uuid import UUID

import structlog
from django.core.cache import cache
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from psycopg.types.json import Jsonb

from agents.accelerators.base import DeviceUse
from agents.core.states import AgentState
from agents.machines.observation import Measurements, measure_containers, process_ids_of
from agents.metering.readings import present_uses
from agents.models import Agent
from agents.runtime.usage import ContainerUsage
from common import clock
from common.resilience.keyed_pool import KeyedPool
from sessions_app.core.states import Status
from sessions_app.metrics.accelerators import (
    DeviceAllocation,
    DeviceUsage,
    device_usage_by_kernel,
    own_memory,
)
from sessions_app.metrics.allocated_devices import device_allocations
from sessions_app.models import Kernel, KernelMetric, KernelUsage

log = structlog.get_logger(__name__)

SAMPLE_S, MINUTE_S, QUARTER_S = 10, 60, 900
SAMPLES_KEPT = timedelta(hours=1)
MINUTES_KEPT = timedelta(days=1)
# The sum of both is less than SAMPLE_S.
ROUND_S = 7
PROCESSES_S = 2
PROCESS_THREADS = 16
UNMEASURED_AFTER = timedelta(seconds=60)

COUNTERS = ("cpu_ns", "net_received_bytes", "net_sent_bytes", "disk_read_bytes", "disk_written_bytes")
SERIES = (
    "cpu_milli", "mem_bytes", "net_received", "net_sent", "disk_read", "disk_written", "device_percent",
    "device_mem_bytes", "device_activity",
)  # fmt: skip
SHARES = ("device_count", "device_milli", "device_mem_total", "devices_are_own")

_METRICS, _USAGE = KernelMetric._meta.db_table, KernelUsage._meta.db_table
_MOST = tuple(f"{name}_max" for name in SERIES)
INSERT_SAMPLES = f"""
    INSERT INTO {_METRICS} (kernel_id, span_s, at, {", ".join(SERIES)})
    SELECT kernel_id, {SAMPLE_S}, %s, {", ".join(SERIES)}
    FROM unnest(%s::uuid[]{", %s::bigint[]" * len(SERIES)}) AS sample (kernel_id, {", ".join(SERIES)})
    ON CONFLICT DO NOTHING
"""
STORE_COUNTERS = f"""
    INSERT INTO {_USAGE} (kernel_id, at, {", ".join(COUNTERS + SHARES)}, own_device_mem)
    SELECT * FROM unnest(
        %s::uuid[], %s::timestamptz[]{", %s::bigint[]" * (len(COUNTERS + SHARES) - 1)}, %s::boolean[], %s::jsonb[]
    )
    ON CONFLICT (kernel_id) DO UPDATE SET at = excluded.at, own_device_mem = excluded.own_device_mem, {", ".join(f"{name} = excluded.{name}" for name in COUNTERS + SHARES)}
"""
# Rounded up, so that little use of a device does not become 0 in the mean.
_CEILED = ("device_percent", "device_activity")
_MEANS = {name: f"{'ceil' if name in _CEILED else 'round'}(avg({name}))" for name in SERIES}
ROLL_UP = f"""
    INSERT INTO {_METRICS} (kernel_id, span_s, at, {", ".join(SERIES + _MOST)})
    SELECT kernel_id, %(to_s)s, date_bin(make_interval(secs => %(to_s)s), at, timestamptz 'epoch'),
        {", ".join(_MEANS.values())},
        {", ".join(f"max(coalesce({name}_max, {name}))" for name in SERIES)}
    FROM {_METRICS}
    WHERE kernel_id = ANY(%(kernels)s) AND span_s = %(from_s)s AND at >= %(since)s AND at < %(until)s
    GROUP BY 1, 3
    ON CONFLICT (kernel_id, span_s, at) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in SERIES + _MOST)}
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """One kernel at one instant: counters, rates since the last reading, use of its devices, and
    memory that its own processes use there, by device.
    """

    kernel_id: UUID
    usage: ContainerUsage
    rates: tuple[int | None, ...]
    devices: DeviceUsage | None = None
    own_device_mem: Mapping[int, int] = field(default_factory=dict)

    @property
    def values(self) -> tuple[int | None, ...]:
        """Values in the order of SERIES."""
        reported = self.devices
        return (
            *self.rates,
            *((None,) * 3 if reported is None else (reported.percent, reported.mem_bytes, reported.activity)),
        )

    @property
    def share(self) -> tuple[int | None, ...]:
        """Values in the order of SHARES."""
        if self.devices is None:
            return (None,) * len(SHARES)
        allocated = self.devices.share
        return allocated.count, allocated.milli, allocated.mem_bytes, allocated.is_alone


_process_pool = KeyedPool[dict[str, set[int]]]("processes", PROCESS_THREADS)


def measure_sessions() -> None:
    """Run one round over all machines with running sessions. 10 statements for any number of them."""
    now = clock.now()
    kernels = {
        agent: list(own) for agent, own in groupby(running_kernels(), key=lambda kernel: kernel.placed_agent)
    }
    names = {agent: [kernel.container_name for kernel in own] for agent, own in kernels.items()}
    found = run_round(measure_containers(names, within_s=ROUND_S))
    allocated, uses = _device_uses(kernels, now)
    present = device_usage_by_kernel(allocated, uses)
    own_memory_by_kernel = _own_memory(kernels, allocated, uses)
    samples = [
        _sample(kernel, usage, present.get(kernel.pk), own_memory_by_kernel.get(kernel.pk, {}))
        for own in kernels.values()
        for kernel in own
        if (usage := found.usages.get(kernel.container_name)) is not None
    ]
    if samples:
        store_samples(samples, now)
    delete_old_samples(now)
    roll_up_minutes(now)
    log_unmeasured(now, found.faults)


def run_round(measuring: Coroutine[Any, Any, Measurements]) -> Measurements:
    """Run the coroutine in a new event loop.

    `asyncio.run` would also wait for threads that resolve names, for any length of time.
    """
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(measuring)
    finally:
        loop.close()


def _sample(
    kernel: Kernel, usage: ContainerUsage, devices: DeviceUsage | None, own_device_mem: Mapping[int, int]
) -> Sample:
    rates = series_between(getattr(kernel, "usage", None), usage)
    return Sample(kernel.pk, usage, rates, devices, own_device_mem)


def _device_uses(
    agents: Iterable[Agent], now: datetime
) -> tuple[Sequence[DeviceAllocation], Mapping[int, DeviceUse]]:
    """Return the allocations of devices on these machines, and the present use of the devices. Three
    statements, one if there are none.
    """
    agent_ids = [agent.pk for agent in agents]
    allocated = device_allocations(agent_ids) if agent_ids else []
    return allocated, present_uses(agent_ids, now) if allocated else {}


def _own_memory(
    kernels: Mapping[Agent, Sequence[Kernel]],
    allocated: Sequence[DeviceAllocation],
    uses: Mapping[int, DeviceUse],
) -> Mapping[UUID, dict[int, int]]:
    """Return {kernel id: {device: memory that its processes use}} for devices of several kernels whose
    driver tells processes. Calls the engines of such devices only.
    """
    holders = Counter(key for each in allocated for key in each.devices)
    shared: dict[object, list[int]] = {}
    for each in allocated:
        told = [key for key in each.devices if holders[key] > 1 and key in uses and uses[key].processes]
        shared.setdefault(each.kernel_id, []).extend(told)
    work = {
        agent.pk: partial(process_ids_of, agent, names)
        for agent, own in kernels.items()
        if (names := [kernel.container_name for kernel in own if shared.get(kernel.pk)])
    }
    ids = {
        name: found
        for by_name in _process_pool.run(work, timeout_s=PROCESSES_S).values()
        for name, found in by_name.items()
    }
    return {
        kernel.pk: own_memory(shared[kernel.pk], uses, ids[kernel.container_name])
        for own in kernels.values()
        for kernel in own
        if shared.get(kernel.pk) and kernel.container_name in ids
    }


def running_kernels() -> Iterable[Kernel]:
    """Return kernels of running sessions on reachable machines, with their last counters.

    One query. Ordered by machine, longest unmeasured first: an engine that is too slow for all of
    them measures others in the next round.
    """
    kernels = Kernel.objects.select_related("agent", "usage").order_by(
        "agent_id", F("usage__at").asc(nulls_first=True), "pk"
    )
    watched = [state for state in AgentState if state.is_watched]
    return kernels.filter(
        ended_at=None, session__status=Status.RUNNING, agent__last_error="", agent__state__in=watched
    ).iterator()


def unmeasured_kernels(now: datetime) -> QuerySet[Kernel]:
    """Return running kernels that were not measured for UNMEASURED_AFTER."""
    since = now - UNMEASURED_AFTER
    recent = KernelMetric.objects.filter(kernel=OuterRef("pk"), span_s=SAMPLE_S, at__gt=since)
    running = Kernel.objects.filter(
        ended_at=None, session__status=Status.RUNNING, session__started_at__lte=since
    )
    return running.exclude(Exists(recent))


def log_unmeasured(now: datetime, faults: Mapping[int, str]) -> None:
    """Log the number of unmeasured kernels per machine and the reason, once a minute each.

    One query. The reason is from `faults` of this round by agent id, or from the last heartbeat.
    """
    unmeasured = unmeasured_kernels(now).select_related("agent")
    for agent, count in Counter(kernel.agent for kernel in unmeasured).items():
        if agent and cache.add(f"unmeasured:{agent.pk}", 1, timeout=int(UNMEASURED_AFTER.total_seconds())):
            why = faults.get(agent.pk) or agent.last_error
            log.warning("metrics.unmeasured", agent=agent.name, kernels=count, why=why)


def series_between(before: KernelUsage | None, after: ContainerUsage) -> tuple[int | None, ...]:
    """Return SERIES between two readings; None for missing counters and counters that restarted."""
    rates = dict.fromkeys(COUNTERS, None) if before is None else {
        name: _per_second(getattr(before, name), getattr(after, name), (after.at - before.at).total_seconds())
        for name in COUNTERS
    }  # fmt: skip
    cpu_ns = rates.pop("cpu_ns")
    return (None if cpu_ns is None else cpu_ns // 1_000_000, after.mem_bytes, *rates.values())


def _per_second(before: int | None, after: int | None, seconds: float) -> int | None:
    if before is None or after is None or after < before or seconds <= 0:
        return None
    return round((after - before) / seconds)


def store_samples(samples: Sequence[Sample], now: datetime) -> None:
    """Store the samples, and update the current minute from them."""
    ids = [sample.kernel_id for sample in samples]
    counters = [[getattr(sample.usage, name) for sample in samples] for name in COUNTERS]
    shares = [list(column) for column in zip(*(sample.share for sample in samples), strict=True)]
    series = [list(column) for column in zip(*(sample.values for sample in samples), strict=True)]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(INSERT_SAMPLES, [now, ids, *series])
        own = [
            Jsonb({str(key): amount for key, amount in sample.own_device_mem.items()}) for sample in samples
        ]
        cursor.execute(
            STORE_COUNTERS, [ids, [sample.usage.at for sample in samples], *counters, *shares, own]
        )
        _roll_up(
            SAMPLE_S, MINUTE_S, ids, since=clock.start_of(now, MINUTE_S), until=now + timedelta(seconds=1)
        )


def _roll_up(from_s: int, to_s: int, kernels: Sequence[UUID], *, since: datetime, until: datetime) -> None:
    """Summarise rows of `from_s` seconds into rows of `to_s` seconds."""
    with connection.cursor() as cursor:
        cursor.execute(
            ROLL_UP,
            {"from_s": from_s, "to_s": to_s, "kernels": list(kernels), "since": since, "until": until},
        )


def delete_old_samples(now: datetime) -> None:
    """Delete samples older than SAMPLES_KEPT; their minutes remain."""
    KernelMetric.objects.filter(span_s=SAMPLE_S, at__lt=now - SAMPLES_KEPT).delete()


def delete_future_samples(now: datetime) -> None:
    """Delete measurements of live sessions in the future, after the clock was set back.

    They would take the place of later measurements.
    """
    live = Kernel.objects.filter(session__ended_at=None)
    KernelMetric.objects.filter(kernel_id__in=live.values("pk"), at__gt=now).delete()


def roll_up_minutes(now: datetime) -> None:
    """Roll up minutes of running sessions that are older than a day into quarter hours."""
    until = clock.start_of(now - MINUTES_KEPT, QUARTER_S)
    old = Kernel.objects.filter(session__status=Status.RUNNING, session__started_at__lt=until)
    ids = list(old.values_list("pk", flat=True))
    if not ids:
        return
    with transaction.atomic():
        _roll_up(MINUTE_S, QUARTER_S, ids, since=until - timedelta(days=365), until=until)
        KernelMetric.objects.filter(kernel_id__in=ids, span_s=MINUTE_S, at__lt=until).delete()
