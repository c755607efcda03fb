"""Measure the check before submission: would a session start now, where, or why not?

Calls the service of REST and the launcher, with and without a cached snapshot of the group, in
turns.
"""

import logging
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any

from agents.models import ResourceGroup
from scheduler.forecast import snapshot_cache
from scheduler.tick import run_tick
from sessions_app.admission.forecast import STARTS_NOW, forecast_session
from sessions_app.core.request import parse_request
from tests import factories
from tests.bench.frame import Measure, Options, Row, measure_in_turns, never_above
from tests.bench.own_django import own_database
from tests.bench.scheduler import CHECK
from tests.bench.scheduler_rows import Tenants, fill_group, make_tenants
from tests.bench.scheduler_workload import NODE, Workload, mixed

AGENTS, WAITING, ASKED = 1000, 500, 15
LIMIT_MS = 10.0
SMALL, LARGE = {"cpu": 1, "mem": "1g"}, {"cpu": 1, "mem": "1g", "cuda": 1}


def bench(options: Options) -> list[Row]:
    logging.disable(logging.CRITICAL)
    with own_database():
        tenants = make_tenants()
        waiting = tuple(each for each in mixed(0, 4 * WAITING).sessions if each.size.milli_gpus)[:WAITING]
        held = NODE._replace(cores=0, mem_gib=0)
        group = fill_group("check", Workload(AGENTS, waiting, held=held), tenants)
        run_tick(group.pk)
        questions = Questions(group, tenants)
        measures = [
            Measure(
                f"{CHECK}, {words}, {how}",
                "ms",
                partial(ask, resources, keep),
                partial(ask, resources, snapshot_cache.clear_cache),
                never_above(LIMIT_MS) if ask == questions.processor_ms else None,
            )
            for words, resources in (("starts now", SMALL), (f"behind {WAITING}", LARGE))
            for how, ask in (("processor", questions.processor_ms), ("wall", questions.wall_ms))
        ]
        return measure_in_turns(measures, options)


def keep() -> None:
    """Leave the snapshot cache of this process as it is."""


class Questions:
    """Checks by one user after the other."""

    def __init__(self, group: ResourceGroup, tenants: Tenants) -> None:
        self._group = group
        self._tenants = tenants
        self._numbers = count()

    def wall_ms(self, resources: Mapping[str, Any], before: Callable[[], None]) -> float:
        return self._median_ms(time.perf_counter, resources, before)

    def processor_ms(self, resources: Mapping[str, Any], before: Callable[[], None]) -> float:
        """Return the median CPU time of this process, without the database and other load."""
        return self._median_ms(time.process_time, resources, before)

    def _median_ms(
        self, timer: Callable[[], float], resources: Mapping[str, Any], before: Callable[[], None]
    ) -> float:
        self._ask(resources)
        took_ms = []
        for _ in range(ASKED):
            before()
            began = timer()
            self._ask(resources)
            took_ms.append((timer() - began) * 1000)
        return statistics.median(took_ms)

    def _ask(self, resources: Mapping[str, Any]) -> None:
        number, tenants = next(self._numbers), self._tenants
        asked = {
            "name": f"asked-{number}",
            "project": tenants.projects[number % len(tenants.projects)].name,
            "image": tenants.image.reference,
            "resource_group": self._group.name,
            "resources": resources,
        }
        actor = factories.actor_for(tenants.people[number % len(tenants.people)])
        found = forecast_session(actor, parse_request(asked)).outlook.reason
        if (found == STARTS_NOW) != (resources is SMALL):
            raise SystemExit(f"A session of {resources} was told “{found}”.")
