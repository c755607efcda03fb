"""`bin/faults chaos`: workers that do at random all that people, administrators and machines do, and are killed at random; and an
auditor of its own beside them. Ends with 1 where anything was over-allocated, above its limit, lost, doubled or stuck; Ctrl-C says
how far it came.

Real PostgreSQL, the real services, scheduler and bodies of Celery's tasks; engines are simulated. Messages are lost, come twice and
late. The choices of each process follow from the seed; which of them is faster does not. An operation is what happens to one
session (submitted, cancelled, finished), one policy or one machine; nearly half of all calls do one, the others up to hundreds.
"""

import argparse
import logging
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import tests.chaos.one_installation  # noqa: F401  # isort: skip
from django.db import connection

from agents.runtime.simulated.state import clear_shared_states
from common.messaging.redis import client
from portal.ops.console import speaker
from tests.bench.own_django import own_database
from tests.chaos import ending, world
from tests.chaos.processes import Heard, Watched, Workers
from tests.chaos.worker import COUNTS
from tests.template import ensure_template

say = speaker("chaos")
BETWEEN_KILLS = 10  # calls: on a busy machine processes would do nothing but begin
SAID_EVERY_S = 30.0
VIOLATIONS_SAID = 40


@dataclass(slots=True)
class Outcome:
    """What a run came to. `told` as the processes counted: `calls KIND`, `refused KIND`, `operations KIND`."""

    heard: Heard = field(default_factory=lambda: Heard(say))
    told: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    drained_s: float | None = None
    is_cut_short: bool = False

    def sums(self, family: str) -> Counter[str]:
        pairs = ((name.partition(" "), count) for name, count in self.told.items())
        return Counter({kind: count for (first, _, kind), count in pairs if first == family})

    def total(self, family: str) -> int:
        return self.sums(family).total()


@dataclass(frozen=True, slots=True)
class Asked:
    operations: int
    workers: int
    seed: int
    seconds: float
    kill_every_s: float
    kills: int


def go_on(asked: Asked, environment: dict[str, str], outcome: Outcome) -> None:
    """Until so many operations are done, the time is over, or somebody presses Ctrl-C."""
    chance = random.Random(f"kills {asked.seed}")
    workers = Workers(count=asked.workers, seed=asked.seed, environment=environment, heard=outcome.heard)
    began_at, calls_at_kill = time.monotonic(), 0
    try:
        with Watched(environment, outcome.heard) as watched:
            workers.begin()
            began_at = said_at = killed_at = time.monotonic()
            while outcome.total("operations") < asked.operations and (
                time.monotonic() - began_at < asked.seconds or workers.kills.total() < asked.kills
            ):
                time.sleep(0.1)
                workers.tend()
                watched.demand_there()
                _count(outcome)
                now = time.monotonic()
                outcome.seconds, outcome.kills = now - began_at, workers.kills
                is_time = now - killed_at > asked.kill_every_s * (0.5 + chance.random())
                if is_time and outcome.total("calls") >= calls_at_kill + BETWEEN_KILLS:
                    killed_at, calls_at_kill = now, outcome.total("calls")
                    workers.strike()
                if now - said_at > SAID_EVERY_S:
                    said_at = now
                    say(_so_far(outcome))
            workers.end()
    except RuntimeError as error:
        outcome.heard.note(f"error: {error}")
    except KeyboardInterrupt:
        outcome.is_cut_short = True
    finally:
        workers.end()
    outcome.seconds = time.monotonic() - began_at
    _count(outcome)


def _count(outcome: Outcome) -> None:
    counts = COUNTS.format(installation=os.environ["CHAOS_INSTALLATION"])
    told: Any = client().hgetall(counts)
    outcome.told = Counter({name.decode(): int(count) for name, count in told.items()})


def run(asked: Asked, outcome: Outcome) -> None:
    logging.disable(logging.CRITICAL)
    installation = os.environ["CHAOS_INSTALLATION"]
    # To migrate takes minutes on a busy machine.
    connection.settings_dict["TEST"]["TEMPLATE"] = ensure_template()
    with own_database() as environment:
        try:
            world.make()
            go_on(asked, environment, outcome)
            if not outcome.is_cut_short:
                drains_at = time.monotonic()
                for wrong in ending.drain(installation):
                    outcome.heard.note(wrong)
                outcome.drained_s = time.monotonic() - drains_at
                for wrong in ending.last_look(environment):
                    outcome.heard.note(wrong)
            outcome.ends = ending.ends()
        except KeyboardInterrupt:
            outcome.is_cut_short = True
            outcome.ends = ending.ends()
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is news, and what was seen until then is told
            outcome.heard.note(f"error: the run ended with {error!r}")
        finally:
            clear_shared_states(f"{installation}:")


def _so_far(outcome: Outcome) -> str:
    operations, violations = outcome.total("operations"), outcome.heard.kinds.total()
    each_s = operations / max(1.0, outcome.seconds)
    return (
        f"so far {operations} operations, {outcome.total('calls')} calls, {each_s:.0f} operations a second; "
        f"{outcome.kills.total()} kills, {outcome.total('refused')} refused, {violations} violations"
    )


def summary(asked: Asked, outcome: Outcome) -> list[str]:
    """What a run came to, in lines."""
    heard, seconds = outcome.heard, max(1.0, outcome.seconds)
    operations, calls = outcome.total("operations"), outcome.total("calls")
    lines = [
        f"seed {asked.seed}, {asked.workers} workers, load {os.getloadavg()[2]:.1f} on {os.cpu_count()} cores",
        f"{operations} operations in {outcome.seconds:.0f} s, {operations / seconds:.0f} a second ({_parts(outcome.sums('operations'))})",
        f"{calls} calls ({_parts(outcome.sums('calls'))})",
        f"{outcome.total('refused')} of them refused ({_parts(outcome.sums('refused'))})",
        f"{outcome.kills.total()} processes killed ({_parts(outcome.kills)})",
        f"{outcome.ends.total()} sessions ({_parts(outcome.ends)})",
        f"{heard.looks} looks, {heard.kinds.total()} violations"
        + (f" ({_parts(heard.kinds)})" if heard.kinds else ""),
    ]
    if outcome.is_cut_short:
        lines.append("cut short: it was not waited for the end of what lived")
    elif outcome.drained_s is not None and not heard.kinds:
        lines.append(
            f"all came to its end within {outcome.drained_s:.0f} s, and the whole history was looked at once more"
        )
    return lines + heard.violations[:VIOLATIONS_SAID]


def _parts(counted: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counted.items())) or "none"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/faults chaos", description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=24 * 3600.0, help="stop after so long")
    parser.add_argument("--kill-every", type=float, default=3.0, metavar="SECONDS", help="on the average")
    parser.add_argument("--kills", type=int, default=0, help="do not stop before so many")
    given = parser.parse_args()
    asked = Asked(given.operations, given.workers, given.seed, given.seconds, given.kill_every, given.kills)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcome = Outcome()
    run(asked, outcome)
    for line in summary(asked, outcome):
        say(line)
    if outcome.heard.kinds:
        return 1
    return 130 if outcome.is_cut_short else 0


if __name__ == "__main__":
    sys.exit(main())
