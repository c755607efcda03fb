"""`bin/faults chaos`: workers that do at random all that people, administrators and machines do, and are killed at random; and an
auditor of its own beside them. Ends with 1 where anything was over-allocated, above its limit, lost, doubled or stuck.

Real PostgreSQL, the real services, scheduler and bodies of Celery's tasks; engines are simulated. What a process has sent and
not run is lost when it is killed, as messages of a broker may be. The choices of each process follow from the seed; which of
them is faster does not.
"""

import argparse
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

os.environ.setdefault("CHAOS_INSTALLATION", f"chaos{os.getpid()}")
import tests.chaos.one_installation  # noqa: F401  # isort: skip
from accounts.policies import ResourcePolicy
from agents.runtime.simulated_shelf import clear_shelves
from common.redis import client
from portal.ops.console import speaker
from sessions_app.models import ComputeSession, Kernel
from sessions_app.states import LIVE, Status
from tests.bench.own_django import own_database
from tests.chaos import world
from tests.chaos.auditor import auditor
from tests.chaos.worker import COUNTS

say = speaker("chaos")
OPERATIONS = ("submit", "cancel", "finish", "limit", "lose")
MOST_KEPT = 200
BETWEEN_KILLS = 10  # operations: on a busy machine processes would do nothing but begin
DRAINED_WITHIN_S = 300.0
SAID_EVERY_S = 30.0


@dataclass(slots=True)
class Outcome:
    """What a run came to; `violations` as they were said."""

    operations: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    looks: int = 0
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)

    @property
    def done(self) -> int:
        return sum(self.operations.values())

    def note(self, violation: str) -> None:
        """Said at once; of very many the first are kept."""
        if len(self.violations) < MOST_KEPT:
            say(f"VIOLATION {violation.strip()}")
            self.violations.append(violation.strip())


class Run:
    def __init__(self, *, seed: int, workers: int, environment: dict[str, str], kill_every_s: float) -> None:
        self._environment, self._kill_every_s = environment, kill_every_s
        self._chance = random.Random(seed)
        self._counts = COUNTS.format(installation=os.environ["CHAOS_INSTALLATION"])
        self.outcome = Outcome()
        self._lives = [0] * workers
        self._pids: dict[int, int] = {}
        self._nursery = _child("tests.chaos.worker", environment, str(seed))
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _bear(self, number: int) -> None:
        self._lives[number] += 1
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(f"{number} {self._lives[number]}\n")
        self._nursery.stdin.flush()

    def _listen(self) -> None:
        assert self._nursery.stdout is not None
        for line in self._nursery.stdout:
            if line.startswith("born "):
                _, number, pid = line.split()
                self._pids[int(number)] = int(pid)
            else:
                self.outcome.note(line)

    def go_on(self, operations: int, seconds: float) -> None:
        """Until so many operations are done or the time is over."""
        began_at = said_at = killed_at = time.monotonic()
        done_at_kill = 0
        for number in range(len(self._lives)):
            self._bear(number)
        with Watched(self._environment, self.outcome):
            while self._done() < operations and time.monotonic() - began_at < seconds:
                time.sleep(0.1)
                if self._nursery.poll() is not None:  # it never ends by itself
                    self.outcome.note(f"error: no worker can be started: {self._nursery.returncode}")
                    break
                now = time.monotonic()
                is_time = now - killed_at > self._kill_every_s * (0.5 + self._chance.random())
                if is_time and self._done() >= done_at_kill + BETWEEN_KILLS:
                    killed_at, done_at_kill = now, self._done()
                    self._kill_one()
                if now - said_at > SAID_EVERY_S:
                    said_at = now
                    say(f"{self._done()} operations, {self.outcome.kills} kills")
            self._end()
        self.outcome.seconds = time.monotonic() - began_at
        self.outcome.operations = Counter(self._told())

    def _kill_one(self) -> None:
        number = self._chance.randrange(len(self._lives))
        if (pid := self._pids.pop(number, None)) is not None:
            os.kill(pid, signal.SIGKILL)
            self.outcome.kills += 1
            self._bear(number)

    def _end(self) -> None:
        assert self._nursery.stdin is not None
        self._nursery.stdin.close()
        self._nursery.wait()
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
        self._listener.join()

    def _done(self) -> int:
        return sum(self._told().values())

    def _told(self) -> dict[str, int]:
        told = {name.decode(): int(count) for name, count in client().hgetall(self._counts).items()}
        return {name: count for name, count in told.items() if name.removesuffix(" refused") in OPERATIONS}


class Watched:
    """The auditor runs beside the block, in a process of its own."""

    def __init__(self, environment: dict[str, str], outcome: Outcome) -> None:
        self._outcome = outcome
        self._process = _child("tests.chaos.auditor", environment)
        self._listener = threading.Thread(target=self._listen)

    def __enter__(self) -> None:
        self._listener.start()

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._listener.join()
        if self._process.wait():
            self._outcome.note(f"error: the auditor ended with {self._process.returncode}")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("looks: "):
                self._outcome.looks = int(line.removeprefix("looks: "))
            else:
                self._outcome.note(line)


def _child(module: str, environment: dict[str, str], *arguments: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def drain(installation: str) -> list[str]:
    """No more requests and no more faults: everything that was asked for comes to its end, and nothing is left. What is not so
    in time is stuck."""
    one = world.enter(installation)
    for policy in one.policies.values():
        _lift_limits(policy)
    chance, ends_at = random.Random(0), time.monotonic() + DRAINED_WITHIN_S
    while ComputeSession.objects.filter(status__in=LIVE).exists():
        if time.monotonic() > ends_at:
            rows = ComputeSession.objects.filter(status__in=LIVE).values_list(
                "pk", "status", "status_message"
            )
            return [f"stuck: {row}" for row in rows[:20]]
        one.look_after()
        while one.sent:
            one.run_task(chance)
        for kernel in Kernel.objects.filter(session__status=Status.RUNNING).select_related("agent"):
            _end_by_itself(one, kernel)
        time.sleep(0.2)
    for _ in range(3):  # what a lost machine still has is reaped once it is back
        one.look_after()
    return []


def _end_by_itself(one: world.World, kernel: Kernel) -> None:
    runtime = one.runtimes[kernel.placed_agent.name]
    if kernel.container_name in runtime.shelf.containers and runtime.answers:
        state = runtime.inspect_container(kernel.container_name)
        if state is not None and state.exit_code is None:
            runtime.finish(kernel.container_name)


def _lift_limits(policy_id: int) -> None:
    ResourcePolicy.objects.filter(pk=policy_id).update(
        max_sessions=None, max_pending_sessions=None, max_slots={}, max_pending_slots={}
    )


def last_look(environment: dict[str, str]) -> list[str]:
    """The whole history once more; nothing is held, used or there any more."""
    os.environ["DATABASE_URL"] = environment["DATABASE_URL"]
    one = auditor()
    wrong = [f"{kind}: {row}" for kind, row in one.look(at_all=True)]
    with one.database.cursor() as cursor:
        for what, question in (
            ("held by nobody", "SELECT count(*) AS n FROM sessions_app_kernelallocation"),
            ("occupied by nobody", "SELECT count(*) AS n FROM agents_agentslot WHERE occupied <> 0"),
            (
                "used by nobody",
                "SELECT count(*) AS n FROM accounts_limituse WHERE used <> 0 AND resource ~ '(sessions|slots.*)$'",
            ),
        ):
            row = cursor.execute(question).fetchone()
            wrong += [f"stuck: {row['n']} {what}"] if row and row["n"] else []
    one.database.close()
    left = one._containers()
    return wrong + ([f"stuck: {len(left)} containers are left"] if left else [])


def run(*, operations: int, workers: int, seed: int, seconds: float, kill_every_s: float) -> Outcome:
    logging.disable(logging.CRITICAL)
    installation = os.environ["CHAOS_INSTALLATION"]
    with own_database() as environment:
        try:
            world.make()
            one = Run(seed=seed, workers=workers, environment=environment, kill_every_s=kill_every_s)
            one.go_on(operations, seconds)
            one.outcome.violations += drain(installation)
            one.outcome.violations += last_look(environment)
        finally:
            clear_shelves(f"{installation}:")
    return one.outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/faults chaos", description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=24 * 3600.0, help="stop after so long")
    parser.add_argument("--kill-every", type=float, default=3.0, metavar="SECONDS", help="on the average")
    given = parser.parse_args()
    outcome = run(
        operations=given.operations,
        workers=given.workers,
        seed=given.seed,
        seconds=given.seconds,
        kill_every_s=given.kill_every,
    )
    by_kind = ", ".join(f"{name} {count}" for name, count in sorted(outcome.operations.items()))
    say(f"{outcome.done} operations in {outcome.seconds:.0f} s ({by_kind})")
    say(f"{outcome.kills} processes killed, {outcome.looks} looks, {len(outcome.violations)} violations")
    for violation in outcome.violations[:40]:
        say(f"{violation}")
    return int(bool(outcome.violations))


if __name__ == "__main__":
    sys.exit(main())
