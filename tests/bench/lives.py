"""Whole lives of sessions: asked for, placed, running, ended and accounted, on simulated machines.

What runs: `enqueue_alike` for arrays of ARRAY sessions of one person (and, beside it, `enqueue_session` for each), `run_tick`, and the bodies of the tasks that come of it (`launch_sessions`,
`reconcile_sessions`, `terminate_sessions`) one after the other in this process, as a portal's workers run them side by side in
theirs; PostgreSQL, Redis and production's settings. Containers end as soon as they have begun. A life counts when its session
is TERMINATED and holds nothing.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any
from uuid import UUID

from agents.groups import create_resource_group
from agents.models import AgentSlot, ResourceGroup
from agents.runtime.simulated_shelf import Conduct
from agents.simulation import Shape
from common import dispatch
from common.actors import SYSTEM
from common.dispatch import TaskName
from portal import simulation
from scheduler.tick import run_tick
from sessions_app import tasks
from sessions_app.models import ComputeSession, KernelAllocation
from sessions_app.services import enqueue_alike, enqueue_session
from sessions_app.states import Status
from tests.bench.frame import Measure, Options, Row, measure_in_turns, never_below, say
from tests.bench.own_django import own_database

LIVES = "whole lives in arrays, beside one by one"
PROCESSOR = "this process, for a life in arrays"
AGENTS, BATCH, ARRAY, MOST_ROUNDS = 1000, 1000, 100, 3  # each has room, whatever they ask for
ASKED_ALONE = 100
TARGET = 1000.0
STAGES = ("asked for", "placed", "running", "exited", "ended")


def bench(options: Options) -> list[Row]:
    logging.disable(logging.CRITICAL)
    with own_database():
        create_resource_group(actor=SYSTEM, name="default", is_default=True)
        say(f"making {AGENTS} simulated machines")
        group = simulation.make_cluster(count=AGENTS, shape=Shape(conduct=Conduct(run_s=0.001)))
        try:
            return _measured(Stages(group), options)
        finally:
            simulation.clear()


def _measured(stages: "Stages", options: Options) -> list[Row]:
    measures = [
        Measure(LIVES, "1/s", stages.arrays, stages.one_by_one, never_below(TARGET), MOST_ROUNDS),
    ]
    rows = measure_in_turns(measures, options)
    parts = [
        Measure(
            f"{name}, alone",
            "1/s",
            lambda name=name: stages.rates[name].pop(),
            most_rounds=len(stages.rates[name]),
        )  # type: ignore[misc]
        for name in STAGES
    ]
    parts.append(Measure(PROCESSOR, "ms", stages.processor_ms.pop, most_rounds=len(stages.processor_ms)))
    return rows + measure_in_turns([each for each in parts if rows], options)


class Stages:
    """Of each round of lives in arrays: sessions per second of each stage (`rates`), and what of a processor this process took for
    one life; what PostgreSQL and Redis took is beside it."""

    def __init__(self, group: ResourceGroup) -> None:
        self._group = group
        self._requests = simulation.workload(simulation.people_of(group), seed=1)
        self.rates: dict[str, list[float]] = {name: [] for name in STAGES}
        self.processor_ms: list[float] = []

    def arrays(self) -> float:
        """Lives per second of the next BATCH."""
        asked = list(islice(self._requests, BATCH // ARRAY))
        began_at = time.process_time()
        rate = self._lives(lambda: _ask_arrays(asked), BATCH, self.rates)
        self.processor_ms.append((time.process_time() - began_at) * 1000 / BATCH)
        return rate

    def one_by_one(self) -> float:
        """The same for ASKED_ALONE requests, each by itself."""
        asked = list(islice(self._requests, ASKED_ALONE))
        return self._lives(lambda: _ask(asked), ASKED_ALONE, {name: [] for name in STAGES})

    def _lives(self, ask: Callable[[], list[UUID]], count: int, rates: dict[str, list[float]]) -> float:
        sent: list[tuple[str, dict[str, Any]]] = []
        broker, dispatch.current_app = dispatch.current_app, _Broker(sent)  # type: ignore[assignment]

        def timed(name: str, work: Callable[[], Any]) -> Any:
            began_at = time.perf_counter()
            done = work()
            rates[name].append(count / (time.perf_counter() - began_at))
            return done

        try:
            began_at = time.perf_counter()
            ids = timed("asked for", ask)
            timed("placed", self._place)
            timed("running", lambda: _run(sent, TaskName.LAUNCH_SESSIONS))
            timed("exited", tasks.reconcile_sessions)
            timed("ended", lambda: _run(sent, TaskName.TERMINATE_SESSIONS))
            took_s = time.perf_counter() - began_at
        finally:
            dispatch.current_app = broker
        _demand_ended(ids)
        return count / took_s

    def _place(self) -> None:
        while run_tick(self._group.pk):
            pass


class _Broker:
    def __init__(self, sent: list[tuple[str, dict[str, Any]]]) -> None:
        self._sent = sent

    def send_task(self, name: str, *, kwargs: dict[str, Any], **_: object) -> None:
        self._sent.append((name, kwargs))


def _ask(asked: Sequence[Any]) -> list[UUID]:
    return [enqueue_session(actor=actor, request=request).pk for actor, request in asked]


def _ask_arrays(asked: Sequence[Any]) -> list[UUID]:
    return [
        session_id
        for actor, request in asked
        for session_id in enqueue_alike(
            actor=actor,
            requests=[replace(request, name=f"{request.name}-{number}") for number in range(ARRAY)],
        )
    ]


def _run(sent: list[tuple[str, dict[str, Any]]], name: TaskName) -> None:
    """All messages of this name that were sent."""
    body = {
        TaskName.LAUNCH_SESSIONS: tasks.launch_sessions,
        TaskName.TERMINATE_SESSIONS: tasks.terminate_sessions,
    }[name]
    for kwargs in [kwargs for each, kwargs in sent if each == name.value]:
        body(**kwargs)
    sent[:] = [each for each in sent if each[0] != name.value]


def _demand_ended(ids: Sequence[UUID]) -> None:
    ended = ComputeSession.objects.filter(pk__in=ids, status=Status.TERMINATED).count()
    is_held = KernelAllocation.objects.exists() or AgentSlot.objects.exclude(occupied=0).exists()
    if ended != len(ids) or is_held:
        raise SystemExit(f"{ended} of {len(ids)} sessions have ended; is anything held: {is_held}.")
