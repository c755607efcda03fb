"""Measure what it costs to watch MACHINES simulated machines with four accelerators each.

Runs the bodies of the periodic tasks that call every machine, and divides the processor time of this
process by the task's period: heartbeats, measurements of accelerators, discovery. A simulated engine
is called without HTTP; what that takes is measured with this machine's engine.
"""

import logging
import resource
import time
from collections.abc import Callable
from functools import partial

from agents import tasks
from agents.machines.observation import observe
from agents.machines.simulation import MachineShape
from agents.models import Agent
from agents.resource_groups.service import create_resource_group
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.simulated.state import Behaviour
from common.actors import SYSTEM
from common.messaging.dispatch import TaskName
from portal.demo import simulated_cluster
from portal.processes.periodic import PERIODS_S
from tests import engines
from tests.bench.frame import Measure, Options, Row, measure_in_turns, never_above, say
from tests.bench.own_django import own_database

MACHINES, GPUS, CALLS = 1000, 4, 30
MOST_PERCENT, MOST_MIB = 30, 300
KIB_PER_MIB = 1024
TASKS: dict[str, tuple[TaskName, Callable[[], None]]] = {
    "heartbeats": (TaskName.HEARTBEAT_AGENTS, tasks.heartbeat_agents),
    "measurements of accelerators": (TaskName.MEASURE_DEVICES, tasks.measure_devices),
    "discovery": (TaskName.DISCOVER_DEVICES, tasks.discover_devices),
}


def bench(options: Options) -> list[Row]:
    logging.disable(logging.CRITICAL)
    with own_database():
        create_resource_group(actor=SYSTEM, name="default", is_default=True)
        say(f"making {MACHINES} simulated machines")
        shape = MachineShape(gpus=GPUS, behaviour=Behaviour())
        simulated_cluster.make_cluster(count=MACHINES, shape=shape)
        try:
            all_percent()  # the first rounds write what later ones compare with
            return measure_in_turns(
                [
                    Measure("all, of one core", "%", all_percent, target=never_above(MOST_PERCENT)),
                    *(Measure(f"{name}, of one core", "%", partial(percent, name)) for name in TASKS),
                    Measure("a round of heartbeats", "s", round_s),
                    Measure("a call of one real engine", "ms", real_call_ms),
                    Measure("memory of the process", "MiB", peak_mib, target=never_above(MOST_MIB)),
                ],
                options,
            )
        finally:
            simulated_cluster.clear()


def percent(name: str) -> float:
    """Return the share of one core that a periodic task takes."""
    task, run = TASKS[name]
    began_at = time.process_time()
    run()
    return 100 * (time.process_time() - began_at) / PERIODS_S[task]


def all_percent() -> float:
    return sum(percent(name) for name in TASKS)


def round_s() -> float:
    """Return the length of a round in which every machine answers."""
    before = Agent.objects.order_by("heartbeat_at").values_list("heartbeat_at", flat=True)[0]
    began_at = time.monotonic()
    tasks.heartbeat_agents()
    took_s = time.monotonic() - began_at
    if Agent.objects.filter(heartbeat_at__lte=before).exists():
        raise SystemExit("Some machines were left out of the round.")
    return took_s


def real_call_ms() -> float:
    """Return this process's processor time for the requests of a heartbeat over HTTP."""
    runtime = DockerRuntime(engines.ADDRESS)
    observe(runtime)  # connects
    began_at = time.process_time()
    for _ in range(CALLS):
        observe(runtime)
    took_s = time.process_time() - began_at
    runtime.close()
    return 1000 * took_s / CALLS


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_MIB
