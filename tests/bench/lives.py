"""Measure complete session lives per second on simulated agents, from submission to accounting.

Runs `enqueue_batch` for arrays of ARRAY sessions of one user, `run_tick`, and the bodies of the
tasks that follow (`launch_session`, `reconcile_sessions`, `terminate_session`), with PostgreSQL,
Redis and production settings: in one process, or in WORKERS parallel processes, each of which
submits to its own group and takes tasks from a shared queue. Containers end as soon as they start.
A life counts when its session is TERMINATED and has no allocation.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from multiprocessing import get_context
from queue import Empty
from typing import Any, TypeVar
from uuid import UUID

from django.db import connection, connections

from agents.machines.simulation import MachineShape
from agents.models import AgentSlot, ResourceGroup
from agents.resource_groups.service import create_resource_group
from agents.runtime.simulated.state import Behaviour
from common.actors import SYSTEM
from common.messaging import dispatch
from common.messaging.dispatch import TaskName
from portal.demo import simulated_cluster
from scheduler.tick import run_tick
from sessions_app import tasks
from sessions_app.admission.service import enqueue_batch
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession, KernelAllocation
from tests.bench.frame import Measure, Options, Row, measure_in_turns, say
from tests.bench.own_django import own_database
from tests.bench.scheduler import LIVES, SIDE_BY_SIDE

PROCESSOR = "this process, for a life in arrays"
AGENTS, BATCH, ARRAY, MOST_ROUNDS = 200, 200, 100, 3  # each agent has capacity for all requests
WORKERS, LATEST_S = 2, 120
BODIES: dict[str, Callable[..., None]] = {
    TaskName.LAUNCH_SESSION.value: tasks.launch_session,
    TaskName.TERMINATE_SESSION.value: tasks.terminate_session,
}
STAGES = ("asked for", "placed", "running", "exited", "ended")


def bench(options: Options) -> list[Row]:
    logging.disable(logging.CRITICAL)
    with own_database():
        create_resource_group(actor=SYSTEM, name="default", is_default=True)
        say(f"making {AGENTS} simulated machines")
        names = ["simulated", *(f"simulated-{number}" for number in range(1, WORKERS))]
        shape = MachineShape(behaviour=Behaviour(run_s=0.001))
        groups = [
            simulated_cluster.make_cluster(count=AGENTS, shape=shape, group_name=group_name)
            for group_name in names
        ]
        try:
            return _measured([Stages(group) for group in groups], options)
        finally:
            simulated_cluster.clear()


def _measured(workers: Sequence["Stages"], options: Options) -> list[Row]:
    stages = workers[0]
    measures = [
        Measure(SIDE_BY_SIDE, "1/s", partial(_side_by_side, workers), most_rounds=MOST_ROUNDS),
        Measure(LIVES, "1/s", stages.arrays, most_rounds=MOST_ROUNDS),
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


def _side_by_side(workers: Sequence["Stages"]) -> float:
    """Return lives per second when all workers process a BATCH each in parallel."""
    backend: Any = connection
    connections.close_all()
    backend.close_pool()  # its threads must not exist when the process forks
    forks = get_context("fork")
    begins, queue = forks.Barrier(len(workers) + 1), forks.Queue()
    processes = [forks.Process(target=stages.beside_others, args=(begins, queue)) for stages in workers]
    for process in processes:
        process.start()
    begins.wait(LATEST_S)
    began_at = time.perf_counter()
    for process in processes:
        process.join()
    took_s = time.perf_counter() - began_at
    if any(process.exitcode for process in processes):
        raise SystemExit("A worker has failed; what it said stands above.")
    for stages in workers:
        stages.next_batch()  # skips the requests that the worker process submitted
    _demand_nothing_held()
    return len(workers) * BATCH / took_s


class Stages:
    """Rates of each stage (`rates`, sessions per second), one value per round.

    `processor_ms` is this process's CPU time per life, without PostgreSQL and Redis.
    """

    def __init__(self, group: ResourceGroup) -> None:
        self._group = group
        self._requests = simulated_cluster.workload(simulated_cluster.simulated_people(group), seed=1)
        self.rates: dict[str, list[float]] = {name: [] for name in STAGES}
        self.processor_ms: list[float] = []

    def arrays(self) -> float:
        """Process the next BATCH. Returns lives per second."""

        def timed(name: str, work: Callable[[], Any]) -> Any:
            began_at = time.perf_counter()
            done = work()
            self.rates[name].append(BATCH / (time.perf_counter() - began_at))
            return done

        asked = self.next_batch()
        processor_began_at = time.process_time()
        with _sent_to(_Caught()) as caught:
            began_at = time.perf_counter()
            ids = timed("asked for", lambda: _ask_arrays(asked))
            timed("placed", self._place)
            timed("running", lambda: caught.run(TaskName.LAUNCH_SESSION))
            timed("exited", partial(_see_all_exit, ids))
            timed("ended", lambda: caught.run(TaskName.TERMINATE_SESSION))
            took_s = time.perf_counter() - began_at
        self.processor_ms.append((time.process_time() - processor_began_at) * 1000 / BATCH)
        _demand_ended(ids)
        _demand_nothing_held()
        return BATCH / took_s

    def beside_others(self, begins: Any, queue: Any) -> None:
        """Process the next BATCH beside other workers, starting at the barrier `begins`.

        Takes tasks of all workers from `queue` until no session is live.
        """
        asked = self.next_batch()
        begins.wait(LATEST_S)
        with _sent_to(_Queue(queue)):
            ids = _ask_arrays(asked)
            self._place()
            ends_by = _latest()
            while ComputeSession.objects.live().exists() and time.monotonic() < ends_by:
                try:
                    name, kwargs = queue.get_nowait()
                except Empty:
                    tasks.reconcile_sessions()
                else:
                    BODIES[name](**kwargs)
        _demand_ended(ids)

    def next_batch(self) -> list[Any]:
        """Return the requests of the next BATCH."""
        return list(islice(self._requests, BATCH // ARRAY))

    def _place(self) -> None:
        while run_tick(self._group.pk):
            pass


class _Caught:
    """Broker that stores tasks."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def send_task(self, name: str, *, kwargs: dict[str, Any], **_: object) -> None:
        self.sent.append((name, kwargs))

    def run(self, name: TaskName) -> None:
        """Run all stored tasks of this name."""
        due = [kwargs for each, kwargs in self.sent if each == name.value]
        self.sent = [each for each in self.sent if each[0] != name.value]
        for kwargs in due:
            BODIES[name.value](**kwargs)


class _Queue:
    """Broker that puts tasks into a queue shared by the workers; ticks are run by each worker."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def send_task(self, name: str, *, kwargs: dict[str, Any], **_: object) -> None:
        if name in BODIES:
            self._queue.put((name, kwargs))


Broker = TypeVar("Broker", _Caught, _Queue)


@contextlib.contextmanager
def _sent_to(broker: Broker) -> Iterator[Broker]:
    """Send all tasks within the context to `broker`."""
    real = dispatch.current_app
    dispatch.current_app = broker  # type: ignore[assignment]
    try:
        yield broker
    finally:
        dispatch.current_app = real


def _see_all_exit(ids: Sequence[UUID]) -> None:
    """Reconcile until no container of these sessions runs; one round covers only some agents."""
    running, ends_by = ComputeSession.objects.filter(pk__in=ids, status=Status.RUNNING), _latest()
    while running.exists() and time.monotonic() < ends_by:
        tasks.reconcile_sessions()


def _latest() -> float:
    return time.monotonic() + LATEST_S


def _ask_arrays(asked: Sequence[Any]) -> list[UUID]:
    return [
        session_id
        for actor, request in asked
        for session_id in enqueue_batch(
            actor=actor,
            requests=[replace(request, name=f"{request.name}-{number}") for number in range(ARRAY)],
        )
    ]


def _demand_ended(ids: Sequence[UUID]) -> None:
    if (ended := _ended(ids)) != len(ids):
        raise SystemExit(f"{ended} of {len(ids)} sessions have ended.")


def _ended(ids: Sequence[UUID]) -> int:
    return ComputeSession.objects.filter(pk__in=ids, status=Status.TERMINATED).count()


def _demand_nothing_held() -> None:
    if KernelAllocation.objects.exists() or AgentSlot.objects.exclude(occupied=0).exists():
        raise SystemExit("All sessions have ended, and some of what they held is held.")
