"""Looks at a database and its engines from outside, by SQL of its own, and says what must never be. Knows nothing of Berth's
services, and takes nobody's word for a sum.

`python -m tests.chaos.auditor` does so once a second until its standard input ends, and prints a line for each violation.

What lives is looked at whole each time; of what has ended, what a step was taken by since the look before, and a while longer. The
last look of a run is at all of it.
"""

import json
import os
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import redis

from tests.chaos.questions import (
    COUNTED,
    FIRST_LIMITS,
    GROUP_USED,
    IN_FORCE,
    KERNELS,
    LIMITS,
    NEWEST,
    STUCK_BEFORE,
    USED,
    VIOLATIONS,
)

EVERY_S = 1.0
IN_FORCE_S = 20
"""A limit counts as in force for so long after it was changed: a statement that began before may commit after. And so does what was in force
so long before the last look: what is used may have grown at any time since, and on a busy machine half a minute is between two looks."""
STUCK_AFTER_S = 300
STUCK_AFTER_ROUNDS = 60
"""Longer than the deadlines of the stages, and so many rounds of what a portal does by itself that came to their end: until then
one that has too much to do, or whose processes are killed before they do anything, is only late."""
AGAIN_FOR_S = 20
"""What is new is looked at again for so long: a statement with a lower number may commit after one with a higher."""
NEVER = datetime.fromtimestamp(0, UTC)
HOLDING = ("SCHEDULED", "PREPARING", "STARTING", "RUNNING", "TERMINATING")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Found:
    """A container: how it is, and since when it has ended (seconds since 1970)."""

    machine: str
    status: str
    until: float | None


@dataclass(slots=True)
class Auditor:
    """One connection of its own to each. `found` counts violations by kind."""

    database: psycopg.Connection[Row]
    engines: "redis.Redis"
    shelves: str
    stuck_after_s: float = STUCK_AFTER_S
    looks: int = 0
    found: Counter[str] = field(default_factory=Counter)
    _looked_at: datetime | None = None
    _used_before: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _newest: list[tuple[float, Row]] = field(
        default_factory=lambda: [(float("-inf"), {"step": 0, "answered": 0})]
    )
    """The highest numbers that were seen, and when."""

    def look(self, *, at_all: bool = False) -> list[tuple[str, Row]]:
        """What is wrong now: (kind, what was seen). One instant of the database."""
        self.looks += 1
        containers = self.containers()
        with self.database.transaction(), self.database.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            told: dict[str, Any] = {
                "holding": list(HOLDING),
                "all": at_all,
                "stuck_after_s": self.stuck_after_s,
                "rounds": STUCK_AFTER_ROUNDS,
            }

            def ask(question: str) -> list[Row]:
                return cursor.execute(question, told).fetchall()

            [begun] = ask("SELECT now() AS instant")
            told["in_force_since"] = (self._looked_at or begun["instant"]) - timedelta(seconds=IN_FORCE_S)
            self._looked_at = begun["instant"]
            told |= self._since(ask(NEWEST)[0])
            [looked_after] = ask(STUCK_BEFORE)
            told["stuck_before"] = looked_after["instant"] if looked_after["was_looked_after"] else NEVER
            kernels = ask(KERNELS)
            wrong = [(kind, row) for kind, question in VIOLATIONS for row in ask(question)]
            wrong += [("limit exceeded", row) for row in self._exceeded(ask)]
            wrong += [("stuck", row) for row in _unnoticed(containers, kernels, told["stuck_before"])]
            wrong += [("doubled", row) for row in _elsewhere(containers, kernels)]
        self.found.update(kind for kind, _ in wrong)
        return wrong

    def _since(self, newest: Row) -> Row:
        """The numbers above which all is looked at: those that were the highest AGAIN_FOR_S ago."""
        now = time.monotonic()
        self._newest.append((now, newest))
        while self._newest[1][0] < now - AGAIN_FOR_S:
            self._newest.pop(0)
        return self._newest[0][1]

    def _exceeded(self, ask: Any) -> Iterator[Row]:
        """More than each limit that was in force since the last look, and more than then; or a count that is not the sum."""
        used = {(row["level"], row["id"], row["name"]): row["used"] for row in ask(USED)}
        limited = [row | {"used": used.get((row["level"], row["id"], row["name"]), 0)} for row in ask(LIMITS)]
        limited += ask(GROUP_USED)
        in_force = {(row["whose"], row["name"]): row["value"] for row in ask(IN_FORCE)}
        unlimited = {(row["whose"], row["name"]) for row in ask(FIRST_LIMITS)}
        before, self._used_before = self._used_before, {}
        for row in limited:
            kind = row["whose"], row["name"]
            key = *kind, row["level"], row["id"]
            most = max(row["value"], in_force.get(kind, 0), before.get(key, 0))
            if row["used"] > most and kind not in unlimited:
                yield row | {"most": most}
            self._used_before[key] = row["used"]
        counted = {(row["level"], row["id"], row["resource"]): row["used"] for row in ask(COUNTED)}
        if counted != used:
            differ = {str(key) for key in {*counted, *used} if counted.get(key, 0) != used.get(key, 0)}
            if differ:
                yield {"ledger differs": sorted(differ)[:5]}

    def containers(self) -> dict[str, list[_Found]]:
        """By name, on all machines."""
        there: dict[str, list[_Found]] = {}
        keys: Any = self.engines.scan_iter(match=f"berth:simulated:{self.shelves}:*:containers", count=1000)
        for key in keys:
            machine = key.decode().split(":")[-2]
            for name, text in self.engines.hgetall(key).items():
                told = json.loads(text)
                there.setdefault(name.decode(), []).append(_Found(machine, told["status"], told["until"]))
        return there


def _elsewhere(containers: Mapping[str, list[_Found]], kernels: list[Row]) -> Iterator[Row]:
    """Containers of live sessions on more than one machine, or on another than the rows say."""
    for kernel in kernels:
        machines = [found.machine for found in containers.get(kernel["name"], [])]
        if machines and machines != [kernel["agent"]]:
            yield {"container": kernel["name"], "machines": machines, "should be": kernel["agent"]}


def _unnoticed(containers: Mapping[str, list[_Found]], kernels: list[Row], before: datetime) -> Iterator[Row]:
    """Sessions that run by their rows, while their container has ended long ago."""
    for kernel in kernels:
        for found in containers.get(kernel["name"], []):
            if kernel["status"] == "RUNNING" and found.until and found.until < before.timestamp():
                yield {"session": kernel["id"], "its container has ended": found.until}


def auditor(stuck_after_s: float = STUCK_AFTER_S) -> Auditor:
    database = psycopg.connect(os.environ["DATABASE_URL"], row_factory=psycopg.rows.dict_row)
    return Auditor(
        database,
        redis.Redis.from_url(os.environ["REDIS_URL"]),
        os.environ["CHAOS_INSTALLATION"],
        stuck_after_s,
    )


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    one = auditor()
    while not select.select([sys.stdin], [], [], EVERY_S)[0]:
        began_at = time.monotonic()
        for kind, row in one.look():
            tell(f"{kind}: {json.dumps(row, default=str)}")
        time.sleep(min(5.0, 2 * (time.monotonic() - began_at)))  # a third of one processor at most
    tell(f"looks: {one.looks}")


if __name__ == "__main__":
    main()
