"""Whole lives of sessions: asked for, placed, running, ended and accounted, on simulated machines.

What runs: `enqueue_session` for each request, `run_tick`, and the bodies of the tasks that come of it (`launch_sessions`,
`reconcile_sessions`, `terminate_sessions`) one after the other in this process, as a portal's workers run them side by side in
theirs; PostgreSQL, Redis and production's settings. Containers end as soon as they have begun. A life counts when its session
is TERMINATED and holds nothing.
"""

import logging
import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any
from uuid import UUID

from agents.models import AgentSlot, ResourceGroup
from agents.runtime.simulated_shelf import Conduct
from agents.services import create_resource_group
from agents.simulation import Shape
from common import dispatch
from common.actors import SYSTEM
from common.dispatch import TaskName
from portal import simulation
from scheduler.tick import run_tick
from sessions_app import tasks
from sessions_app.models import ComputeSession, KernelAllocation
from sessions_app.services import enqueue_session
from sessions_app.states import Status
from tests.bench.frame import Measure, Options, Row, measure_in_turns, never_below, say
from tests.bench.own_django import own_database

LIVES = "whole lives"
AGENTS, BATCH, MOST_ROUNDS = 500, 300, 3
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
    measures = [Measure(LIVES, "1/s", stages.round, target=never_below(TARGET), most_rounds=MOST_ROUNDS)]
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
    return rows + measure_in_turns([each for each in parts if rows], options)


class Stages:
    """`rates` has sessions per second of each stage, of each round."""

    def __init__(self, group: ResourceGroup) -> None:
        self._group = group
        self._requests = simulation.workload(simulation.people_of(group), seed=1)
        self.rates: dict[str, list[float]] = {name: [] for name in STAGES}

    def round(self) -> float:
        """Lives per second of the next BATCH."""
        sent: list[tuple[str, dict[str, Any]]] = []
        broker, dispatch.current_app = dispatch.current_app, _Broker(sent)  # type: ignore[assignment]
        try:
            began_at = time.perf_counter()
            asked = list(islice(self._requests, BATCH))
            ids = [session.pk for session in self._timed("asked for", lambda: _ask(asked))]
            self._timed("placed", self._place)
            self._timed("running", lambda: _run(sent, TaskName.LAUNCH_SESSIONS))
            self._timed("exited", tasks.reconcile_sessions)
            self._timed("ended", lambda: _run(sent, TaskName.TERMINATE_SESSIONS))
            took_s = time.perf_counter() - began_at
        finally:
            dispatch.current_app = broker
        _demand_ended(ids)
        return BATCH / took_s

    def _timed(self, name: str, work: Callable[[], Any]) -> Any:
        began_at = time.perf_counter()
        done = work()
        self.rates[name].append(BATCH / (time.perf_counter() - began_at))
        return done

    def _place(self) -> None:
        while run_tick(self._group.pk):
            pass


class _Broker:
    def __init__(self, sent: list[tuple[str, dict[str, Any]]]) -> None:
        self._sent = sent

    def send_task(self, name: str, *, kwargs: dict[str, Any], **_: object) -> None:
        self._sent.append((name, kwargs))


def _ask(asked: Sequence[Any]) -> list[ComputeSession]:
    return [enqueue_session(actor=actor, request=request) for actor, request in asked]


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
