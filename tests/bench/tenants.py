"""Compare answers about hidden objects with those about absent ones, over 10,000 random requests.

Requests come in pairs: one about an object hidden from the user, and right before or after it the
same about an absent one (`tests/access/crossing.py`). Both must get the same bytes, cause the same
queries, and take the same time. They run in this process with production settings, without a
network that would blur the times.
"""

import contextlib
import logging
import math
import os
import statistics
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

from django.test import override_settings
from django.test.utils import setup_test_environment

from accounts.web.sign_in import required_action_middleware
from common import clock
from portal.ops.paths import find_layout
from portal.ops.setup.assets import ensure_assets
from tests.access.crossing import Crossing, Pair, far_ids, make_crossing
from tests.access.world import make_world
from tests.bench.frame import Measure, Options, Row, Target, at_most, never_above, row_of, say
from tests.bench.own_django import own_database

PAIRS_A_ROUND = 1000
WARM_UP = 200
SEED = 5
# Single requests differ by more than this; medians of a round do not.
RATIO_LIMIT, RATIO_OF_A_ROUTE_LIMIT = 1.03, 1.25
FEWEST_OF_A_ROUTE = 20


def bench(options: Options) -> list[Row]:
    ensure_assets(find_layout(None), os.environ, say)
    with portal() as crossing:
        attempts = crossing.attempts(Random(SEED))
        rounds = [
            [
                crossing.ask(each, hidden_first=number % 2 == 0)
                for number, each in enumerate(islice(attempts, size))
            ]
            for size in (WARM_UP, *[PAIRS_A_ROUND] * options.rounds)
        ][1:]
    return rows_of(rounds)


@contextlib.contextmanager
def portal() -> Iterator[Crossing]:
    """Create two domains in a database of this run, without throttling.

    Refusals are not logged, because all requests are refused.
    """
    setup_test_environment()
    calm = override_settings(ACCOUNT_RATE_LIMITS=False, BERTH_TOKEN_REQUESTS=0)
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(own_database())
        cleanup.enter_context(calm)
        cleanup.enter_context(
            patch.object(required_action_middleware, "USE_RECORD_INTERVAL", timedelta(days=1))
        )
        root = cleanup.enter_context(TemporaryDirectory(prefix="berth-bench-"))
        logging.disable(logging.CRITICAL)
        far_ids()
        crossing = make_crossing(make_world(Path(root)))
        cleanup.enter_context(clock.frozen_at(clock.now()))
        yield crossing


def rows_of(rounds: Sequence[Sequence[Pair]]) -> list[Row]:
    pairs = [pair for each in rounds for pair in each]
    leaks = [pair for pair in pairs if pair.leaks]
    for pair in leaks[:10]:
        say(f"leak: {pair.attempt}")
    other_queries = [pair for pair in pairs if pair.hidden.queries != pair.absent.queries]
    of_requests = f"of {2 * len(pairs):,} requests"
    hidden_ms = [statistics.median(pair.hidden.took_s for pair in each) * 1000 for each in rounds]
    absent_ms = [statistics.median(pair.absent.took_s for pair in each) * 1000 for each in rounds]
    counts = [
        (f"answers that differ, {of_requests}", "", never_above(0), len(leaks)),
        (f"other queries, {of_requests}", "", never_above(0), len(other_queries)),
        ("the route where they differ most", "×", never_above(RATIO_OF_A_ROUTE_LIMIT), furthest(pairs)),
    ]
    beside = row_of(_measured("hidden beside absent", "ms", at_most(RATIO_LIMIT)), hidden_ms, absent_ms)
    return [beside, *(row_of(_measured(name, unit, most), [value], []) for name, unit, most, value in counts)]


def _measured(name: str, unit: str, target: Target) -> Measure:
    """Return a measure for values measured already."""
    return Measure(name, unit, lambda: math.nan, target=target)


def furthest(pairs: Sequence[Pair]) -> float:
    """Return the median ratio of the route that is furthest from 1 (at least 1).

    Ignores routes with too few requests.
    """
    by_route: dict[str, list[float]] = {}
    for pair in pairs:
        by_route.setdefault(pair.attempt.route, []).append(pair.ratio)
    medians = {
        route: math.exp(abs(math.log(statistics.median(ratios))))
        for route, ratios in by_route.items()
        if len(ratios) >= FEWEST_OF_A_ROUTE
    }
    route = max(medians, key=lambda each: medians[each], default="")
    if not route:  # too few rounds
        return 1.0
    say(f"furthest apart: {route}, {medians[route]:.3f}, of {len(medians)} routes")
    return medians[route]
