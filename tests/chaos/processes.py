"""The processes of a chaos run: workers, who kills them when and how, and the auditor beside them."""

import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Self

from common.messaging.redis import client
from tests.chaos.world import sent_key

MOST_KEPT = 200
PATTERNS = {"alone": 55, "late": 15, "in a row": 12, "hung": 12, "all": 6}
"""How often which: one, and it begins anew; it begins anew after a while; it is killed again as soon as it has begun; it stands
still for a while, holding what it holds, and goes on, or is killed then; all at the same moment, and with them all messages."""
LATE_S = (1.0, 8.0)
HUNG_S = (0.5, 4.0)
ROW, ROW_EVERY_S = 3, 0.4
ANEW_S = 1.0
"""So long after it ended by itself one begins anew: what ended it may last."""
BEGIN_WITHIN_S, END_WITHIN_S = 600.0, 60.0


@dataclass(slots=True)
class Heard:
    """`violations` as they were said."""

    say: Callable[[str], None]
    looks: int = 0
    violations: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def note(self, violation: str) -> None:
        """Said at once; of very many the first are kept."""
        told = violation.strip()
        self.kinds[told.partition(":")[0]] += 1
        if len(self.violations) < MOST_KEPT:
            self.say(f"VIOLATION {told}")
            self.violations.append(told)


class Process:
    """Known by a descriptor: an id names somebody else soon after it has ended, a descriptor never. Raises ProcessLookupError."""

    def __init__(self, pid: int) -> None:
        self._descriptor: int | None = os.pidfd_open(pid)

    def send(self, which: signal.Signals) -> bool:
        """Whether it was still there; nobody is after `close`."""
        if self._descriptor is None or self.has_ended():
            return False
        try:
            signal.pidfd_send_signal(self._descriptor, which)
        except ProcessLookupError:  # it ended just now
            return False
        return True

    def has_ended(self) -> bool:
        return self._descriptor is None or bool(select.select([self._descriptor], [], [], 0)[0])

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None


class Workers:
    """Born by a nursery that has read all that they need; what else it and they say is heard, and that one ended by itself."""

    def __init__(
        self,
        *,
        count: int,
        seed: int,
        environment: dict[str, str],
        heard: Heard,
        nursery: str = "tests.chaos.worker",
    ) -> None:
        self._heard, self._chance = heard, random.Random(seed)
        self._lives = [0] * count
        self._there: dict[int, Process] = {}
        self._newborn: SimpleQueue[tuple[int, Process]] = SimpleQueue()
        self._later: list[tuple[float, Callable[[], object]]] = []
        self.kills: Counter[str] = Counter()
        self._nursery = child(nursery, environment, str(seed))
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def begin(self, *, within_s: float = BEGIN_WITHIN_S) -> None:
        """Returns when all are there: on a busy machine the nursery reads for a while. Raises RuntimeError."""
        ends_at = time.monotonic() + within_s
        for number in range(len(self._lives)):
            self._bear(number)
        while len(self._there) < len(self._lives):
            if time.monotonic() > ends_at:
                raise RuntimeError(
                    f"{len(self._there)} of {len(self._lives)} workers began in {within_s:.0f} s"
                )
            time.sleep(0.05)
            self.tend()

    def tend(self) -> None:
        """What is due by now: a process that begins late, one that goes on; and whoever ended by itself is told and begins anew.
        Raises RuntimeError if none can be born any more."""
        if self._nursery.poll() is not None:  # it never ends by itself
            raise RuntimeError(f"no worker can be started: {self._nursery.returncode}")
        self._take_newborn()
        for number in [number for number, process in self._there.items() if process.has_ended()]:
            self._tell_end(number)
        now = time.monotonic()
        due = [act for at, act in self._later if at <= now]
        self._later = [each for each in self._later if each[0] > now]
        for act in due:
            act()

    def strike(self) -> None:
        """One pattern, drawn."""
        [pattern] = self._chance.choices(list(PATTERNS), list(PATTERNS.values()))
        number = self._chance.randrange(len(self._lives))
        if pattern == "all":
            client().delete(sent_key())
            for each in range(len(self._lives)):
                self._kill(each, pattern)
        elif pattern == "hung":
            self._hang(number)
        else:
            self._kill(number, pattern, bear_in_s=self._chance.uniform(*LATE_S) if pattern == "late" else 0.0)
            for again in range(1, ROW if pattern == "in a row" else 0):
                self._in(again * ROW_EVERY_S, partial(self._kill, number, pattern))

    def end(self) -> None:
        """All are gone, as if killed. May be called twice, also if the first call was broken off."""
        assert self._nursery.stdin is not None
        with suppress(BrokenPipeError):
            self._nursery.stdin.close()
        try:
            self._nursery.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._nursery.kill()  # who was born untold ends by itself
        # The listener hears who was born last, and ends with the last of them.
        while self._listener.is_alive() or not all(each.has_ended() for each in self._there.values()):
            self._take_newborn()
            for process in self._there.values():
                process.send(signal.SIGKILL)
            self._listener.join(0.05)
        for process in self._there.values():
            process.close()

    def _in(self, seconds: float, act: Callable[[], object]) -> None:
        self._later.append((time.monotonic() + seconds, act))

    def _bear(self, number: int) -> None:
        self._lives[number] += 1
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(f"{number} {self._lives[number]}\n")
        self._nursery.stdin.flush()

    def _take_newborn(self) -> None:
        while not self._newborn.empty():
            number, process = self._newborn.get()
            self._there[number] = process

    def _kill(self, number: int, pattern: str, *, bear_in_s: float = 0.0) -> None:
        process = self._there.get(number)
        if process is None:
            return  # it is not there at the moment
        if not process.send(signal.SIGKILL):
            self._tell_end(number)
            return
        self.kills[pattern] += 1
        self._bury(number, bear_in_s)

    def _tell_end(self, number: int) -> None:
        self._heard.note(f"error: worker {number} ended by itself in its life {self._lives[number]}")
        self._bury(number, ANEW_S)

    def _bury(self, number: int, bear_in_s: float) -> None:
        self._there.pop(number).close()
        if bear_in_s:
            self._in(bear_in_s, partial(self._bear, number))
        else:
            self._bear(number)

    def _hang(self, number: int) -> None:
        process = self._there.get(number)
        if process is None or not process.send(signal.SIGSTOP):
            return
        goes_on = self._chance.random() < 0.5
        act = partial(process.send, signal.SIGCONT) if goes_on else partial(self._kill_hung, number, process)
        self._in(self._chance.uniform(*HUNG_S), act)

    def _kill_hung(self, number: int, process: Process) -> None:
        if self._there.get(number) is process:
            self._kill(number, "hung")

    def _listen(self) -> None:
        assert self._nursery.stdout is not None
        for line in self._nursery.stdout:
            if line.startswith("born "):
                _, number, pid = line.split()
                with suppress(ProcessLookupError):  # its nursery is gone, and it has ended too
                    self._newborn.put((int(number), Process(int(pid))))
            else:
                self._heard.note(line)


class Watched:
    """The auditor runs beside the block, in a process of its own."""

    def __init__(self, environment: dict[str, str], heard: Heard) -> None:
        self._heard = heard
        self._process = child("tests.chaos.auditor", environment)
        self._listener = threading.Thread(target=self._listen)

    def __enter__(self) -> Self:
        self._listener.start()
        return self

    def demand_there(self) -> None:
        """Raises RuntimeError if nobody looks any more."""
        if self._process.poll() is not None:
            raise RuntimeError("the auditor has ended")

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._listener.join()
        if self._process.wait():
            self._heard.note(f"error: the auditor ended with {self._process.returncode}")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("looks: "):
                self._heard.looks = int(line.removeprefix("looks: "))
            else:
                self._heard.note(line)


def child(module: str, environment: dict[str, str], *arguments: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
