r"""Run Backend.AI's scheduler classes on the same workloads, in a virtual environment of their own.

    python -m tests.bench.scheduler_peer \
        '{"scheduler": "drf", "workload": "mixed", "sizes": [100, 100], "first": 0,
          "deadline_s": 15, "pause_each_s": 1}'

It processes pending sessions as Backend.AI's dispatcher does, without the dispatcher's other work:
reading the agents and their total again for each session, checks of limits, and database writes.
After each `pause_each_s` seconds of CPU time it prints `PAUSE` and waits for a line, so that Berth
can be measured in between.
"""

import json
import sys
import time
from decimal import Decimal
from typing import Any

from ai.backend.common.types import AgentSelectionStrategy, ClusterMode, ResourceSlot
from ai.backend.manager.models import AgentRow, KernelRow, SessionRow
from ai.backend.manager.models.scaling_group import ScalingGroupOpts
from ai.backend.manager.scheduler.drf import DRFScheduler
from ai.backend.manager.scheduler.fifo import FIFOSlotScheduler, LIFOSlotScheduler
from ai.backend.manager.scheduler.mof import MOFScheduler

from tests.bench.scheduler_workload import GIB, NODE, PAUSE, WORKLOADS, Session, Size, Workload, held_after

SCHEDULERS = {
    "fifo": FIFOSlotScheduler,
    "lifo": LIFOSlotScheduler,
    "drf": DRFScheduler,
    "mof": MOFScheduler,
}
ARCHITECTURE = "x86_64"
SCARCEST_FIRST = ["cuda", "rocm", "tpu", "cpu", "mem"]  # Backend.AI's default
GPU = "cuda.device"


def main() -> None:
    asked = json.loads(sys.argv[1])
    workload = WORKLOADS[asked["workload"]](*asked["sizes"])
    scheduler = SCHEDULERS[asked["scheduler"]](ScalingGroupOpts(), {})
    one_pass = OnePass(workload, scheduler, asked["first"])
    print(json.dumps(one_pass.run(asked["deadline_s"], asked["pause_each_s"])))


class OnePass:
    """One pass over a group: ends when no session is left, or when one cannot be placed.

    The `first` oldest sessions run already at its start.
    """

    def __init__(self, workload: Workload, scheduler: Any, first: int) -> None:
        self._scheduler = scheduler
        self._agents = [_agent(number, held) for number, held in enumerate(held_after(workload, first))]
        self._by_id = {agent.id: agent for agent in self._agents}
        self._pending = [_session(session) for session in workload.sessions[first:]]
        self._total = sum((agent.available_slots for agent in self._agents), ResourceSlot())

    def run(self, deadline_s: float, pause_each_s: float) -> dict[str, Any]:
        """Return the number of decisions, their CPU time, and the GPUs of each user."""
        gpus = dict.fromkeys((session.access_key for session in self._pending), 0.0)
        began_at, decided = time.process_time(), 0
        pause_at = began_at + pause_each_s
        while self._pending and time.process_time() - began_at < deadline_s:
            if time.process_time() >= pause_at:
                print(PAUSE, flush=True)
                sys.stdin.readline()
                pause_at += pause_each_s
            session = self._next()
            decided += 1
            if not self._place(session):
                break
            gpus[session.access_key] += float(session.requested_slots[GPU])
        return {"decided": decided, "took_s": time.process_time() - began_at, "gpus": gpus}

    def _next(self) -> Any:
        picked = self._scheduler.pick_session(self._total, self._pending, ())
        index = next(index for index, session in enumerate(self._pending) if session.id == picked)
        return self._pending.pop(index)

    def _place(self, session: Any) -> bool:
        """Return True if agents were found for the whole session; otherwise allocates nothing."""
        if session.cluster_mode == ClusterMode.SINGLE_NODE:
            return self._reserve(session, self._scheduler.assign_agent_for_session) is not None
        reserved = []
        for kernel in session.kernels:
            agent = self._reserve(kernel, self._scheduler.assign_agent_for_kernel)
            if agent is None:
                for held_by, held in reserved:
                    held_by.occupied_slots = held_by.occupied_slots - held
                return False
            reserved.append((agent, kernel.requested_slots))
        return True

    def _reserve(self, asker: Any, assign: Any) -> Any:
        fitting = [agent for agent in self._agents if agent.architecture == ARCHITECTURE]
        agent_id = assign(fitting, asker, AgentSelectionStrategy.CONCENTRATED, SCARCEST_FIRST)
        if agent_id is None:
            return None
        agent = self._by_id[agent_id]
        agent.occupied_slots = agent.occupied_slots + asker.requested_slots
        return agent


def _agent(number: int, held: Size) -> AgentRow:
    return AgentRow(
        id=f"i-{number:05}",
        architecture=ARCHITECTURE,
        available_slots=_slots(NODE),
        occupied_slots=_slots(held),
    )


def _session(session: Session) -> SessionRow:
    """Return Backend.AI's rows as its dispatcher reads them; a gang is a multi-node cluster."""
    key = f"user-{session.user}"
    kernels = [
        KernelRow(access_key=key, requested_slots=_slots(session.size)) for _ in range(session.containers)
    ]
    return SessionRow(
        id=session.number,
        access_key=key,
        cluster_mode=ClusterMode.MULTI_NODE if session.containers > 1 else ClusterMode.SINGLE_NODE,
        requested_slots=_slots(Size(*(amount * session.containers for amount in session.size))),
        kernels=kernels,
    )


def _slots(size: Size) -> ResourceSlot:
    gpus = Decimal(size.milli_gpus) / 1000
    return ResourceSlot({"cpu": Decimal(size.cores), "mem": Decimal(size.mem_gib * GIB), GPU: gpus})


if __name__ == "__main__":
    main()
