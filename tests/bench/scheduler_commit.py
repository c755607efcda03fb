"""What becomes of plans: batches of 1,000 placements written down, beside a bare bulk commit of the same rows, in turns; and
how long it takes from a request until it has its place, where 10,000 wait that have no room.

Production's settings and a database of this run. The bare commit writes the same rows of sessions, kernels, allocations
and history by one statement each; the database's own triggers and constraints work in both.
"""

import logging
import math
import statistics
import time
from collections.abc import Callable

from django.db import connection, transaction

from agents.models import ResourceGroup
from common import clock
from scheduler.commit import commit_plan
from scheduler.engine import Placement, Plan, plan
from scheduler.snapshot import read_snapshot
from scheduler.tick import run_tick
from sessions_app.models import ComputeSession, Kernel, KernelAllocation, SessionTransition
from sessions_app.requests import parse_request
from sessions_app.services import enqueue_session
from sessions_app.states import Status
from tests import factories
from tests.bench.frame import Measure, Options, Row, at_least, measure_in_turns, never_above, row_of, say
from tests.bench.own_django import own_database
from tests.bench.scheduler import COMMIT, LATENCY
from tests.bench.scheduler_rows import Tenants, add_sessions, fill_group, make_tenants
from tests.bench.scheduler_workload import NODE, Workload, mixed

AGENTS, WAITING, BATCH, MOST_ROUNDS = 5000, 10_000, 1000, 5
COMMIT_FLOOR = 0.7
P50_LIMIT_MS, P99_LIMIT_MS = 5.0, 25.0
AT_ONCE = 2000
SUBMITS, SUBMITS_FOR_S = 150, 60.0
"""So many, or as many as there are in this time."""
_PLACED = '{"text": "A machine with room was found."}'


def bench(options: Options) -> list[Row]:
    logging.disable(logging.CRITICAL)  # a line for each session says nothing here
    rows: list[Row] = []
    with own_database():
        tenants = make_tenants()
        if options.only in COMMIT:
            rows += commits(options, tenants)
        if options.only in LATENCY:
            rows += latency(tenants)
    return rows


def commits(options: Options, tenants: Tenants) -> list[Row]:
    rounds = min(options.rounds, MOST_ROUNDS)
    group = fill_group("commit", mixed(AGENTS, (2 * rounds + 1) * BATCH), tenants)
    batches = Batches(group)
    measure = Measure(
        COMMIT,
        "sessions/s",
        lambda: batches.rate(commit_plan),
        lambda: batches.rate(bare_commit),
        at_least(COMMIT_FLOOR),
        most_rounds=MOST_ROUNDS,
    )
    return measure_in_turns([measure], options)


class Batches:
    """A plan for all that wait in a group, written down piece by piece."""

    def __init__(self, group: ResourceGroup) -> None:
        self._group = group
        self._placements = list(plan(read_snapshot(group.pk), clock.now()).placements)

    def rate(self, commit: Callable[[Plan], object]) -> float:
        """Sessions per second of the next batch."""
        batch, self._placements = self._placements[:BATCH], self._placements[BATCH:]
        self._group.refresh_from_db(fields=["epoch"])
        decided = Plan(self._group.pk, self._group.name, self._group.epoch, clock.now(), tuple(batch))
        began_at = time.perf_counter()
        commit(decided)
        took_s = time.perf_counter() - began_at
        demand_scheduled(batch)
        return len(batch) / took_s


def demand_scheduled(batch: list[Placement]) -> None:
    ids = [placement.session_id for placement in batch]
    count = ComputeSession.objects.filter(pk__in=ids, status=Status.SCHEDULED.value).count()
    if count != BATCH:
        raise SystemExit(f"{count} of {BATCH} sessions were written down.")


def bare_commit(decided: Plan) -> None:
    """The same rows in four statements, without a lock, a check, or a word to anybody."""
    sessions = [placement.session_id for placement in decided.placements]
    kernels = [kernel for placement in decided.placements for kernel in placement.kernels]
    held = [(kernel, name, amount) for kernel in kernels for name, amount in kernel.slots.items()]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"""
            UPDATE {ComputeSession._meta.db_table} AS session
            SET status = 'SCHEDULED', status_reason = 'placed', status_message = %s, status_changed_at = now(),
                deadline_at = now() + interval '2 minutes', queue_position = NULL
            FROM unnest(%s::uuid[]) AS placed (id) WHERE session.id = placed.id
            """,
            [_PLACED, sessions],
        )
        cursor.execute(
            f"""
            UPDATE {Kernel._meta.db_table} AS kernel SET agent_id = placed.agent_id
            FROM unnest(%s::uuid[], %s::bigint[]) AS placed (id, agent_id) WHERE kernel.id = placed.id
            """,
            [[kernel.kernel_id for kernel in kernels], [kernel.agent_id for kernel in kernels]],
        )
        cursor.execute(
            f"""
            INSERT INTO {KernelAllocation._meta.db_table} (kernel_id, agent_id, slot_name, amount)
            SELECT * FROM unnest(%s::uuid[], %s::bigint[], %s::text[], %s::bigint[])
            """,
            [
                [kernel.kernel_id for kernel, _, _ in held],
                [kernel.agent_id for kernel, _, _ in held],
                [name for _, name, _ in held],
                [amount for _, _, amount in held],
            ],
        )
        cursor.execute(
            f"""
            INSERT INTO {SessionTransition._meta.db_table}
                (session_id, from_status, to_status, reason, message, actor_label, happened_at)
            SELECT id, 'PENDING', 'SCHEDULED', 'placed', %s, 'system', now() FROM unnest(%s::uuid[]) AS placed (id)
            """,
            [_PLACED, sessions],
        )


def latency(tenants: Tenants) -> list[Row]:
    """By the service that every door calls, then a tick in the same process: no queue and no worker between them."""
    group = fill_group("latency", Workload(AGENTS, (), held=NODE._replace(cores=0, mem_gib=0)), tenants)
    waiting = [session for session in mixed(0, 2 * WAITING).sessions if session.size.milli_gpus][:WAITING]
    for first in range(0, WAITING, AT_ONCE):
        add_sessions(group, waiting[first : first + AT_ONCE], tenants)
        run_tick(group.pk)  # they have their reasons: what follows writes them down no more
    took_ms: list[float] = []
    ends_at = time.monotonic() + SUBMITS_FOR_S
    while len(took_ms) < SUBMITS and time.monotonic() < ends_at:
        took_ms.append(submit_ms(group, tenants, len(took_ms)))
    say(f"{len(took_ms)} were submitted")
    last_of_100 = statistics.quantiles(took_ms, n=100, method="inclusive")[98]
    numbers = (("p50", P50_LIMIT_MS, statistics.median(took_ms)), ("p99", P99_LIMIT_MS, last_of_100))
    return [
        row_of(Measure(f"{LATENCY}, {name}", "ms", lambda: math.nan, target=never_above(limit)), [number], [])
        for name, limit, number in numbers
    ]


def submit_ms(group: ResourceGroup, tenants: Tenants, number: int) -> float:
    """From the request until it is SCHEDULED."""
    person = tenants.people[number]
    asked = {
        "name": f"submit-{number}",
        "project": tenants.projects[number % len(tenants.projects)].name,
        "image": tenants.image.reference,
        "resource_group": group.name,
        "resources": {"cpu": 1, "mem": "1g"},
    }
    actor = factories.actor_for(person)
    began_at = time.perf_counter()
    session = enqueue_session(actor=actor, request=parse_request(asked))
    placed = run_tick(group.pk)
    took_ms = (time.perf_counter() - began_at) * 1000
    if session.pk not in placed:
        raise SystemExit(f"The session {session.name} found no place.")
    return took_ms
