"""Compare terminals in the page with Jupyter's, in the same container of the session image.

Jupyter is used directly at the container's port, without a proxy: its best case.
"""

import asyncio
import contextlib
import itertools
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from tests.bench.frame import Measure, Options, Row, at_least, at_most, measure_in_turns, never_above, say
from tests.bench.processes import rss_mib
from tests.bench.terminal_stage import Door, Theatre, theatre

LINE_KEYS = 40  # a terminal's line holds 4096
ROUNDS_OF_KEYS = 25
BULK_BYTES = 20_000_000
TERMINALS = 100
AT_ONCE = 8
FIRST = 24
STALL_S = 5.0
GONE_WITHIN_S = 5.0
ANSWER_S = 60

_marks = itertools.count(1)


def bench(options: Options) -> list[Row]:
    with theatre() as stage:
        say("warming up")
        duel = Duel(stage)
        duel.run()
        asyncio.run(many_terminals(stage, FIRST))
        crowd = Crowd(stage)
        return measure_in_turns(
            [
                Measure("echo, p50", "µs", lambda: duel.number_of(stage.ours), lambda: duel.number_of(stage.peer),
                        at_most(1.5)),
                Measure("much output", "MB/s", lambda: run(bulk_mb_per_s(stage.ours)),
                        lambda: run(bulk_mb_per_s(stage.peer)), at_least(1.2), most_rounds=3),
                Measure("memory, 100 terminals", "MiB", crowd.growth_mib, None, never_above(20), most_rounds=2),
                Measure("threads, 100 terminals", "", lambda: crowd.threads, None, never_above(0), most_rounds=2),
                Measure("shells left 5 s after closing", "", lambda: crowd.left, None, never_above(0), most_rounds=2),
                Measure("memory, stalled terminal", "MiB", lambda: run(stalled_growth_mib(stage)), None,
                        never_above(20), most_rounds=2),
            ],
            options,
        )  # fmt: skip


def run(measurement):  # type: ignore[no-untyped-def]
    return asyncio.run(measurement)


class Terminal:
    """Client side of one open terminal."""

    def __init__(self, door: Door, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._door = door
        self._socket = socket
        self._unseen = 0

    async def type(self, text: str) -> None:
        spoken = self._door.spoken(text)
        await (self._socket.send_str(spoken) if isinstance(spoken, str) else self._socket.send_bytes(spoken))

    async def read(self) -> str:
        """Return the next output; acknowledges it as a page does."""
        message = await self._socket.receive(timeout=ANSWER_S)
        text = self._door.heard(message)
        if self._door.is_ours:
            self._unseen += len(message.data)
            if self._unseen >= 2**16:
                await self._socket.send_json({"type": "ack", "bytes": self._unseen})
                self._unseen = 0
        return text

    async def read_until(self, ending: str) -> None:
        seen = ""
        while ending not in seen:
            seen = seen[-len(ending) :] + await self.read()


@contextlib.asynccontextmanager
async def terminal(door: Door, number: int = 0) -> AsyncIterator[Terminal]:
    """Yield a terminal with its shell at the prompt."""
    url = door.urls[number % len(door.urls)]
    async with aiohttp.ClientSession() as http:
        async with http.ws_connect(url, headers=door.headers, max_msg_size=2**24) as socket:
            opened = Terminal(door, socket)
            mark = next(_marks)  # Jupyter repeats earlier output
            await opened.type(f"PS1= ; echo re''ady-{mark}.\r")
            await opened.read_until(f"ready-{mark}.")
            yield opened


class Duel:
    """Round trips of both, alternating after a few keys, so that other load affects both."""

    def __init__(self, stage: Theatre) -> None:
        self._doors = (stage.ours, stage.peer)
        self._numbers: dict[Door, float] = {}

    def number_of(self, door: Door) -> float:
        """Return the median of the last round, in µs.

        A second call for one door runs a new round.
        """
        if door not in self._numbers:
            self.run()
        return self._numbers.pop(door)

    def run(self) -> None:
        self._numbers = asyncio.run(echoes_p50_us(self._doors))


async def echoes_p50_us(doors: tuple[Door, ...]) -> dict[Door, float]:
    """Return the median time from a key to its echo by the terminal (only `cat` reads), in µs."""
    async with contextlib.AsyncExitStack() as opened:
        terminals = {door: await opened.enter_async_context(terminal(door)) for door in doors}
        for each in terminals.values():
            mark = next(_marks)
            await each.type(f"(echo st''arted-{mark}.; exec cat >/dev/null)\r")
            await each.read_until(f"started-{mark}.")
        await asyncio.sleep(0.1)
        took: dict[Door, list[float]] = {door: [] for door in doors}
        for _ in range(ROUNDS_OF_KEYS):
            for door, each in terminals.items():
                took[door] += [await echo_s(each) for _ in range(LINE_KEYS)]
                await each.type("\r")
                await each.read_until("\n")
        for each in terminals.values():
            await each.type("\x04")
        return {door: statistics.median(times[LINE_KEYS:]) * 1e6 for door, times in took.items()}


async def echo_s(opened: Terminal) -> float:
    began_at = time.perf_counter()
    await opened.type("k")
    await opened.read_until("k")
    return time.perf_counter() - began_at


async def bulk_mb_per_s(door: Door) -> float:
    async with terminal(door) as opened:
        script = f"base64 -w 100 /dev/urandom | head -c {BULK_BYTES}; echo; echo do''ne-{(mark := next(_marks))}.\r"
        began_at = time.perf_counter()
        await opened.type(script)
        await opened.read_until(f"done-{mark}.")
        return BULK_BYTES / 1e6 / (time.perf_counter() - began_at)


async def stalled_growth_mib(stage: Theatre) -> float:
    """Return the peak growth of the web process while a page does not
    read endless output, in MiB.
    """
    async with terminal(stage.ours) as opened:
        before = rss_mib(stage.pid)
        await opened.type("yes\r")
        most = 0.0
        end = time.monotonic() + STALL_S
        while time.monotonic() < end:
            await asyncio.sleep(0.2)
            most = max(most, rss_mib(stage.pid) - before)
        return most


class Crowd:
    """A hundred terminals in parallel.

    `threads` and `left` belong to the trials of `growth_mib`.
    """

    def __init__(self, stage: Theatre) -> None:
        self._stage = stage
        self.threads = 0.0
        self.left = 0.0

    def growth_mib(self) -> float:
        growth, threads, left = asyncio.run(many_terminals(self._stage, TERMINALS))
        self.threads, self.left = max(self.threads, threads), max(self.left, left)
        return growth


async def many_terminals(stage: Theatre, count: int) -> tuple[float, float, float]:
    """Return (MiB of growth, threads added by the second half, shells left after closing).

    Shells are counted 5 s after closing. The few threads that load users start with the first
    terminals and stay.
    """
    shells = await asyncio.to_thread(stage.shells)
    memory = rss_mib(stage.pid)
    turn = asyncio.Semaphore(AT_ONCE)
    async with contextlib.AsyncExitStack() as opened:

        async def open_one(number: int) -> None:
            async with turn:
                await opened.enter_async_context(terminal(stage.ours, number))

        await asyncio.gather(*(open_one(number) for number in range(count // 2)))
        threads = threads_of(stage.pid)
        await asyncio.gather(*(open_one(number) for number in range(count // 2, count)))
        more_threads = threads_of(stage.pid) - threads
        grown = rss_mib(stage.pid) - memory
    await asyncio.sleep(GONE_WITHIN_S)
    left = await asyncio.to_thread(stage.shells) - shells
    return grown, more_threads, left


def threads_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))
