"""Measure speed and fairness of scheduling, optionally beside Backend.AI's scheduler (--with-peer).

Measures the engine alone; then commits of its plans beside a bare bulk commit of the same rows,
checks before submission, and whole lives as in `bin/bench lives`. A decision is a placement or the
reason for none. `scheduler_workload` defines agents and pending sessions, of which there are
equally many. Rows on flatness compare the rate at 20,000 nodes (ours) with that at 100 (peer).
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

from portal.ops.paths import CHECKOUT
from scheduler.engine import Policy, Strategy
from tests.bench.frame import (
    Measure,
    Options,
    Row,
    at_least,
    measure_in_turns,
    never_above,
    never_below,
    say,
)
from tests.bench.peers.install import backend_ai_manager
from tests.bench.scheduler_day import gpu_hours_of_a_day
from tests.bench.scheduler_engine import gpus_by_user, mixed_snapshot, pass_s
from tests.bench.scheduler_workload import PAUSE, WORKLOADS, jain

NODES = (100, 1000, 5000, 20_000)
FASTER_THAN_PEER = {100: 300, 1000: 3000, 5000: 10_000}
FLATNESS = 0.7
MANY_PENDING, MANY_LIMIT_S = 100_000, 0.5
PEER_POLICIES = frozenset({"fifo", "lifo", "drf"})
PEER_WHOLE_PASS = 1000
"""Largest number of nodes for which the peer's whole pass is measured.

Above it a pass takes minutes, so a stretch of PEER_STRETCH_S from its middle is measured; the rate
changes by a tenth or two over a pass.
"""
PEER_STRETCH_S, PEER_GIVES_UP_S = 15.0, 300.0
PEER_ROUNDS = 3  # for slow measures
FAIR_POLICIES = frozenset({"drf", "fair_share"})
EVEN = 0.99
COMMIT = "commit of 1,000 beside a bare one"
COMMIT_WITH_TRIGGERS = f"{COMMIT} with the same triggers"
IDLE = "submit to placed, nobody waits"
BACKLOG = "submit to placed, 10,000 wait for 5,000 agents"
CHECK = "check before submitting, 1,000 agents"
NEED_DATABASE = (COMMIT, COMMIT_WITH_TRIGGERS, IDLE, BACKLOG)
SIDE_BY_SIDE = "whole lives in arrays, workers side by side"
LIVES = "whole lives in arrays in one process"


def bench(options: Options) -> list[Row]:
    peer = Peer(backend_ai_manager(say)) if options.with_peer else None
    measures = []
    for policy in Policy:
        beside = peer if policy in PEER_POLICIES else None
        measures += [*speed(policy, beside), *fairness(policy, beside), evenness_of_a_day(policy)]
    measures.append(emptiest_first(peer))
    rows = measure_in_turns(measures, options)
    mixed_snapshot.cache_clear()  # no worker has so many objects for its garbage collector to scan
    return [*rows, *commits(options), *checks(options), *lives(options)]


def commits(options: Options) -> list[Row]:
    """Return rows of commits, on the tests' servers; starts no server if only the engine is
    measured.
    """
    if not [measure for measure in NEED_DATABASE if options.wants(measure)]:
        return []
    import_module("tests.bench.own_django")
    rows: list[Row] = import_module("tests.bench.scheduler_commit").bench(options)
    return rows


def checks(options: Options) -> list[Row]:
    if not options.wants(CHECK):
        return []
    import_module("tests.bench.own_django")
    rows: list[Row] = import_module("tests.bench.scheduler_check").bench(options)
    return rows


def lives(options: Options) -> list[Row]:
    if not [measure for measure in (SIDE_BY_SIDE, LIVES) if options.wants(measure)]:
        return []
    import_module("tests.bench.own_django")
    rows: list[Row] = import_module("tests.bench.lives").bench(options)
    return rows


@dataclass(frozen=True, slots=True)
class Peer:
    """Backend.AI's scheduler; each pass runs in a new process of its own virtual environment."""

    python: Path

    def rates(self, scheduler: str, nodes: int, our_pass_s: Callable[[], float]) -> tuple[float, float]:
        """Return decisions per second of CPU time: ours, of a pass of `our_pass_s()`, and the
        peer's.

        Ours is the mean of passes before, after and in the pauses of the peer's, so that other load
        affects both.
        """
        is_whole = nodes <= PEER_WHOLE_PASS
        ours = [our_pass_s()]
        told = self._one_pass(
            scheduler,
            "mixed",
            nodes,
            nodes,
            first=0 if is_whole else nodes // 2,
            pause_each_s=min(nodes, PEER_WHOLE_PASS) / 2000,
            in_pauses=lambda: ours.append(our_pass_s()),
        )
        ours.append(our_pass_s())
        if not is_whole:
            say(f"Backend.AI at {nodes:,} nodes: by {told['decided']} decisions in the middle of its pass")
        return nodes / fmean(ours), float(told["decided"] / told["took_s"])

    def gpus_by_user(self, scheduler: str, workload: str) -> Mapping[Any, float]:
        gpus: Mapping[Any, float] = self._one_pass(scheduler, workload)["gpus"]
        return gpus

    def _one_pass(
        self,
        scheduler: str,
        workload: str,
        *sizes: int,
        first: int = 0,
        pause_each_s: float = PEER_GIVES_UP_S,
        in_pauses: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        asked = {"scheduler": scheduler, "workload": workload, "sizes": sizes, "first": first}
        asked |= {"deadline_s": PEER_STRETCH_S if first else PEER_GIVES_UP_S, "pause_each_s": pause_each_s}
        argv = [str(self.python), "-m", "tests.bench.scheduler_peer", json.dumps(asked)]
        environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0"}  # the peer iterates over a set
        pipe = subprocess.PIPE
        with subprocess.Popen(
            argv, cwd=CHECKOUT, env=environment, stdin=pipe, stdout=pipe, text=True
        ) as peer:
            assert peer.stdin is not None
            assert peer.stdout is not None
            while (line := peer.stdout.readline()) == f"{PAUSE}\n":
                in_pauses()
                print(file=peer.stdin, flush=True)
        if peer.returncode:
            raise subprocess.CalledProcessError(peer.returncode, argv)
        told: dict[str, Any] = json.loads(line)
        return told


def speed(policy: Policy, peer: Peer | None) -> Iterator[Measure]:
    """Yield measures of speed. Only whole devices are compared: the peer treats fractions as
    amounts.
    """
    for is_fractional in (False, True):
        name = f"{policy}, {'fractional' if is_fractional else 'whole'} devices"
        rates = {nodes: partial(rate, policy, nodes, is_fractional=is_fractional) for nodes in NODES}
        for nodes in NODES:
            beside = None if is_fractional or nodes not in FASTER_THAN_PEER else peer
            yield Measure(
                f"{name}, {nodes:,} nodes",
                "1/s",
                rates[nodes],
                target=at_least(FASTER_THAN_PEER[nodes]) if beside else None,
                most_rounds=PEER_ROUNDS if beside and nodes > NODES[0] else 100,
                both=partial(beside.rates, policy, nodes, partial(mixed_pass_s, nodes, nodes, policy))
                if beside
                else None,
            )
        yield Measure(f"{name}, flatness", "1/s", rates[NODES[-1]], rates[NODES[0]], at_least(FLATNESS))
        yield Measure(
            f"{name}, {MANY_PENDING:,} wait for {NODES[-1]:,} nodes",
            "s",
            partial(mixed_pass_s, NODES[-1], MANY_PENDING, policy, is_fractional=is_fractional),
            target=never_above(MANY_LIMIT_S),
        )


def emptiest_first(peer: Peer | None, nodes: int = 1000) -> Measure:
    """Compare with the peer's third scheduler: oldest session first, on the emptiest node."""

    one_pass_s = partial(mixed_pass_s, nodes, nodes, Policy.FIFO, strategy=Strategy.DISPERSED)
    return Measure(
        f"{Policy.FIFO}, emptiest node first, {nodes:,} nodes",
        "1/s",
        lambda: nodes / one_pass_s(),
        target=at_least(FASTER_THAN_PEER[nodes]) if peer else None,
        most_rounds=PEER_ROUNDS,
        both=partial(peer.rates, "mof", nodes, one_pass_s) if peer else None,
    )


def mixed_pass_s(nodes: int, pending: int, policy: Policy, **kinds: Any) -> float:
    return pass_s(mixed_snapshot(nodes, pending, policy, **kinds))


def rate(policy: Policy, nodes: int, *, is_fractional: bool) -> float:
    """Return decisions per second of one pass."""
    return nodes / mixed_pass_s(nodes, nodes, policy, is_fractional=is_fractional)


def fairness(policy: Policy, peer: Peer | None) -> Iterator[Measure]:
    for name, unit, number, workload, least in (
        (
            "evenness of 10 users (Jain)",
            "",
            evenness,
            "user_by_user",
            EVEN if policy in FAIR_POLICIES else None,
        ),
        ("GPUs used behind a gang without room", "%", percent_used, "behind_a_gang", 100),
    ):
        yield Measure(
            f"{policy}, {name}",
            unit,
            partial(number, partial(gpus_by_user, policy), workload),
            partial(number, partial(peer.gpus_by_user, policy), workload) if peer else None,
            never_below(least) if least else None,
            most_rounds=1,
        )


Pass = Callable[[str], Mapping[Any, float]]


def evenness(gpus_by_user: Pass, workload: str) -> float:
    return jain(list(gpus_by_user(workload).values()))


def evenness_of_a_day(policy: Policy) -> Measure:
    """Measure evenness over a day. DRF sees only current use, which favours users of large
    sessions.
    """
    return Measure(
        f"{policy}, evenness of 10 users over a day (Jain)",
        "",
        lambda: jain(list(gpu_hours_of_a_day(policy).values())),
        target=never_below(EVEN) if policy is Policy.FAIR_SHARE else None,
        most_rounds=1,
    )


def percent_used(gpus_by_user: Pass, workload: str) -> float:
    return 100 * sum(gpus_by_user(workload).values()) / WORKLOADS[workload]().free_gpus
