"""Measure what 1,000 machines with 8 accelerators each cost the portal: recording, and pages.

The machines are simulated: they answer at once, so the time of a round is that of the portal and its
database. A round runs every ten seconds; its share of one core is at most its duration divided by that.
The processor time of a page is that of the web process: unlike p95, it hardly depends on what else runs.
"""

import contextlib
import os
import time
from collections.abc import Callable

from django.db import connection

from accounts.core.roles import Role
from agents.machines.simulation import MachineShape, add_simulated_agents
from agents.metering.collector import SAMPLE_S, measure_devices
from agents.models import ResourceGroup
from portal.ops.paths import find_layout
from portal.ops.setup.assets import ensure_assets
from tests import factories
from tests.bench.frame import Measure, Options, Row, measure_in_turns, never_above, say
from tests.bench.gateway_stage import web_process
from tests.bench.own_django import own_database
from tests.bench.pages import Visitor
from tests.bench.processes import processor_s
from tests.ws.stage import sign_in

MACHINES, DEVICES = 1000, 8
RECORDING_LIMIT, PAGE_LIMIT_MS, PROCESSOR_LIMIT_MS = 0.30, 150.0, 60.0
REQUESTS = 100  # a clock tick is 10 ms


def bench(options: Options) -> list[Row]:
    ensure_assets(find_layout(None), os.environ, say)
    with contextlib.ExitStack() as cleanup:
        environment = cleanup.enter_context(own_database())
        superadmin = factories.make_user(role=Role.SUPERADMIN)
        group = ResourceGroup.objects.create(name="gpus")
        say(f"making {MACHINES} machines")
        shape = MachineShape(gpus=DEVICES, gpu_model="NVIDIA H100 80GB HBM3")
        agents = add_simulated_agents(
            actor=factories.actor_for(superadmin), group=group, count=MACHINES, shape=shape
        )
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")  # autovacuum would do this a minute later
        measure_devices()
        port, pid = cleanup.enter_context(web_process(environment))
        visitor = Visitor(port, sign_in(superadmin))
        pages = (
            "/accelerators/",
            "/api/v1/devices/",
            "/api/v1/devices/?top=wasted",
            f"/agents/{agents[0].pk}/",
            "/sessions/new/",
        )
        measures = [
            Measure("recording 1,000 × 8 every 10 s", "cores", recorded, target=never_above(RECORDING_LIMIT)),
            *(
                Measure(f"{path} p95", "ms", visitor.p95_of(path), target=never_above(PAGE_LIMIT_MS))
                for path in pages
            ),
            *(
                Measure(
                    f"{path} processor",
                    "ms",
                    processor_ms(visitor, path, pid),
                    target=never_above(PROCESSOR_LIMIT_MS),
                    most_rounds=3,
                )
                for path in pages
            ),
        ]
        return measure_in_turns(measures, options)


def processor_ms(visitor: Visitor, path: str, pid: int) -> Callable[[], float]:
    """Return a measure of the processor time of the web process for one request."""

    def measure() -> float:
        before_s = processor_s(pid)
        visitor.took_ms(path, REQUESTS)
        return 1000 * (processor_s(pid) - before_s) / REQUESTS

    return measure


def recorded() -> float:
    began_at = time.perf_counter()
    measure_devices()
    return (time.perf_counter() - began_at) / SAMPLE_S
