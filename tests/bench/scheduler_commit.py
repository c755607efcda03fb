"""Measure commits of plans, and the latency from submission to placement.

Batches of 1,000 placements are committed beside a bare bulk commit of the same rows, in turns.
Latency is measured with an empty queue, and with 10,000 pending sessions that cannot start. Uses
production settings and a database of this run. The bare commit counts allocations itself, with the
triggers for that off; another one leaves it to the triggers, as Berth does.
"""

import json
import logging
import math
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

from django.db import models
from django.db.models.expressions import RawSQL

from agents.models import ResourceGroup
from common import clock
from common.messaging.dispatch import TaskName
from common.messaging.live_updates import stream_name
from common.messaging.redis import client as redis_client
from portal.ops.paths import find_layout
from portal.ops.services.portal_processes import Portal
from portal.processes.periodic import PERIODS_S
from scheduler.commit.plan_commit import commit_plan
from scheduler.engine import Placement, Plan, plan
from scheduler.run_state import run_state
from scheduler.snapshot.reader import read_snapshot
from scheduler.tick import run_tick
from scheduler.triggers import request_tick
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import parse_request
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession
from tests import factories
from tests.bench.frame import (
    Measure,
    Options,
    Row,
    Target,
    measure_in_turns,
    never_above,
    row_of,
    say,
)
from tests.bench.own_django import own_database
from tests.bench.processes import running
from tests.bench.scheduler import BACKLOG, COMMIT, COMMIT_WITH_TRIGGERS, IDLE
from tests.bench.scheduler_bare import Bare, without_triggers
from tests.bench.scheduler_rows import Tenants, add_sessions, fill_group, make_tenants
from tests.bench.scheduler_workload import NODE, Workload, mixed

AGENTS, WAITING, BATCH, MOST_ROUNDS = 5000, 10_000, 1000, 5
IDLE_P50_LIMIT_MS, BACKLOG_P50_LIMIT_MS = 100.0, 1500.0
IDLE_AGENTS, IDLE_GAP_S = 10, 0.3  # after the gap no tick and no pause is in progress
NO_CPU_HELD = NODE._replace(cores=0, mem_gib=0)
AT_ONCE = 2000
FIRST, SUBMITS, SUBMITS_FOR_S = 10, 2000, 60.0
"""Submissions not counted, then counted ones, or as many as fit in this time."""
GIVE_UP_S = 120.0


def bench(options: Options) -> list[Row]:
    logging.disable(logging.CRITICAL)  # no log line per session
    rows: list[Row] = []
    with own_database() as environment:
        tenants = make_tenants()
        if options.only in COMMIT or options.only in COMMIT_WITH_TRIGGERS:
            rows += commits(options, tenants)
        if options.only in IDLE:
            rows += idle_latency(tenants, environment)
        if options.only in BACKLOG:
            rows += backlog_latency(tenants, environment)
    return rows


def commits(options: Options, tenants: Tenants) -> list[Row]:
    rounds = min(options.rounds, MOST_ROUNDS)
    pending = (4 * rounds + 1) * BATCH
    group = fill_group("commit", mixed(pending // 2, pending), tenants)
    batches, bare = Batches(group), Bare(group.pk)

    def ours() -> float:
        return batches.rate(commit_plan)

    def counting_itself() -> float:
        with without_triggers():
            return batches.rate(bare.commit_and_count, bare.deal)

    beside = [
        (COMMIT, counting_itself),
        (COMMIT_WITH_TRIGGERS, lambda: batches.rate(bare.commit, bare.deal)),
    ]
    measures = [
        Measure(name, "sessions/s", ours, peer, None, most_rounds=MOST_ROUNDS) for name, peer in beside
    ]
    return measure_in_turns(measures, options)


class Batches:
    """Plan for all pending sessions of a group, committed in batches."""

    def __init__(self, group: ResourceGroup) -> None:
        self._group = group
        self._placements = list(plan(read_snapshot(group.pk), clock.now()).placements)

    def rate(
        self, commit: Callable[[Plan], object], prepare: Callable[[Plan], object] = lambda decided: None
    ) -> float:
        """Return sessions per second of committing the next batch; `prepare` is not timed."""
        batch, self._placements = self._placements[:BATCH], self._placements[BATCH:]
        epoch = run_state(ResourceGroup.objects.get(pk=self._group.pk)).epoch
        decided = Plan(self._group.pk, self._group.name, epoch, clock.now(), tuple(batch))
        prepare(decided)
        began_at = time.perf_counter()
        commit(decided)
        took_s = time.perf_counter() - began_at
        demand_scheduled(batch)
        return len(batch) / took_s


def demand_scheduled(batch: list[Placement]) -> None:
    ids = [placement.session_id for placement in batch]
    written = ComputeSession.objects.filter(pk__in=ids, status=Status.SCHEDULED.value).count()
    if written != BATCH:
        raise SystemExit(f"{written} of {BATCH} sessions were written down.")


def idle_latency(tenants: Tenants, environment: Mapping[str, str]) -> list[Row]:
    """Measure the time from the call of the service to SCHEDULED, with an empty queue."""
    group = fill_group("idle", Workload(IDLE_AGENTS, (), held=NO_CPU_HELD), tenants)
    submits = Submits(group, tenants, gap_s=IDLE_GAP_S)
    with tick_worker(environment), asked_for_ticks(group.pk):
        return submits.rows(IDLE, IDLE_P50_LIMIT_MS)


def backlog_latency(tenants: Tenants, environment: Mapping[str, str]) -> list[Row]:
    """Measure the time with 10,000 sessions pending for devices that are never released.

    Requests follow each other without a gap.
    """
    group = fill_group("backlog", Workload(AGENTS, (), held=NO_CPU_HELD), tenants)
    waiting = [session for session in mixed(0, 2 * WAITING).sessions if session.size.milli_gpus][:WAITING]
    for first in range(0, WAITING, AT_ONCE):
        add_sessions(group, waiting[first : first + AT_ONCE], tenants)
        run_tick(group.pk)  # sets their pending reasons, so that later ticks do not write them
    submits = Submits(group, tenants)
    with tick_worker(environment), asked_for_ticks(group.pk):
        return submits.rows(BACKLOG, BACKLOG_P50_LIMIT_MS)


@contextmanager
def tick_worker(environment: Mapping[str, str]) -> Iterator[None]:
    """Run the scheduler worker as bin/up starts it."""
    portal = Portal(find_layout(None), environment, host="127.0.0.1", port=0, image="")
    service = next(service for service in portal.front() if service.name == "tick")
    say("starting the worker that ticks")
    with running(service.argv, service.environment, service.directory):
        yield


@contextmanager
def asked_for_ticks(group_id: int) -> Iterator[None]:
    """Request ticks periodically, as the portal's clock does."""
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.wait(PERIODS_S[TaskName.TICK]):
            request_tick(group_id)

    clock_thread = threading.Thread(target=ask)
    clock_thread.start()
    try:
        yield
    finally:
        is_over.set()
        clock_thread.join()


class _Took(NamedTuple):
    """Times of one submission in ms. `heard`: until the live update."""

    whole: float
    once_accepted: float
    heard: float


class Submits:
    """Submissions of sessions that can start, by one user after the
    other, `gap_s` seconds apart.
    """

    def __init__(self, group: ResourceGroup, tenants: Tenants, gap_s: float = 0.0) -> None:
        self._group = group
        self._tenants = tenants
        self._gap_s = gap_s
        self._numbers = count()

    def rows(self, measure: str, p50_limit_ms: float) -> list[Row]:
        """Return percentiles of the total, of the part after acceptance,
        and until the live update.
        """
        for _ in range(FIRST):
            self._submit()  # excludes first-time work and planning of statements
        ends_at, took = time.monotonic() + SUBMITS_FOR_S, list[_Took]()
        while len(took) < 2 or (len(took) < SUBMITS and time.monotonic() < ends_at):
            time.sleep(self._gap_s)
            took.append(self._submit())
        say(f"{measure}: {len(took)} were submitted")
        whole, after, heard = zip(*took, strict=True)
        return [
            *_rows(measure, whole, never_above(p50_limit_ms)),
            *_rows(f"{measure}, once accepted", after),
            *_rows(f"{measure}, until open pages hear", heard),
        ]

    def _submit(self) -> _Took:
        number = next(self._numbers)
        asked = {
            "name": f"{self._group.name}-{number}",
            "project": self._tenants.projects[number % len(self._tenants.projects)].name,
            "image": self._tenants.image.reference,
            "resource_group": self._group.name,
            "resources": {"cpu": 1, "mem": "1g"},
        }
        actor = factories.actor_for(self._tenants.people[number % len(self._tenants.people)])
        since = _last_news()
        began_at = time.time()  # same clock as PostgreSQL, which runs on this machine
        session = enqueue_session(actor=actor, request=parse_request(asked))
        accepted_at = time.time()
        heard_at = _heard_at(session, since)
        placed_at = _committed_at(session)
        if not ComputeSession.objects.filter(pk=session.pk, status=Status.SCHEDULED.value).exists():
            raise SystemExit(f"The session {session.name} found no place.")
        return _Took(
            *(1000 * s for s in (placed_at - began_at, placed_at - accepted_at, heard_at - began_at))
        )


def _last_news() -> str:
    last: Any = redis_client().xrevrange(stream_name(), count=1)
    return last[0][0].decode() if last else "0"


def _heard_at(session: ComputeSession, since: str) -> float:
    """Return when the live update about the placement arrives, which is sent after the commit."""
    gives_up_at = time.monotonic() + GIVE_UP_S
    while time.monotonic() < gives_up_at:
        news: Any = redis_client().xread({stream_name(): since}, block=1000)
        heard_at = time.time()
        for since_bytes, fields in news[0][1] if news else ():
            since = since_bytes.decode()
            told = json.loads(fields.get(b"many", b"[]"))
            if any(each[3] == {"id": str(session.pk), "status": Status.SCHEDULED.value} for each in told):
                return heard_at
    raise SystemExit(f"The session {session.name} found no place in {GIVE_UP_S:g} s.")


def _committed_at(session: ComputeSession) -> float:
    """Return when PostgreSQL committed the current version of the session's row."""
    row = ComputeSession.objects.filter(pk=session.pk)
    written = RawSQL("pg_xact_commit_timestamp(xmin)", (), output_field=models.DateTimeField())
    return row.values_list(written, flat=True).get().timestamp()  # type: ignore[no-any-return]


def _rows(measure: str, took_ms: Sequence[float], p50_target: Target | None = None) -> list[Row]:
    last_of_100 = statistics.quantiles(took_ms, n=100, method="inclusive")[98]
    return [
        row_of(Measure(f"{measure}, {name}", "ms", lambda: math.nan, target=target), [number], [])
        for name, target, number in (
            ("p50", p50_target, statistics.median(took_ms)),
            ("p99", None, last_of_100),
        )
    ]
