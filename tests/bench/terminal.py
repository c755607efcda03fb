"""Terminals in the page beside Jupyter's own, in the same container of the session image.

Jupyter's are reached straight at the container's port, without any proxy: the best that it can do.
"""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from tests.bench.frame import Measure, Options, Row, at_least, at_most, measure_in_turns, never_above, say
from tests.bench.processes import rss_mib
from tests.bench.terminal_stage import Door, Theatre, theatre

KEYS = 1000
WARM_UP_KEYS = 100
LINE_KEYS = 60  # a terminal's line holds 4096
BULK_BYTES = 20_000_000
TERMINALS = 100
AT_ONCE = 8
STALL_S = 5.0
GONE_WITHIN_S = 5.0
ANSWER_S = 60


def bench(options: Options) -> list[Row]:
    with theatre() as stage:
        say("warming up")
        for door in (stage.ours, stage.peer):
            asyncio.run(echo_p50_us(door))
        asyncio.run(many_terminals(stage, AT_ONCE))  # threads that look people up are there once for all
        crowd = Crowd(stage)
        return measure_in_turns(
            [
                Measure("echo, p50", "µs", lambda: run(echo_p50_us(stage.ours)),
                        lambda: run(echo_p50_us(stage.peer)), at_most(1.5)),
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
    """One open terminal, from the client's side."""

    def __init__(self, door: Door, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._door = door
        self._socket = socket
        self._unseen = 0

    async def type(self, text: str) -> None:
        spoken = self._door.spoken(text)
        await (self._socket.send_str(spoken) if isinstance(spoken, str) else self._socket.send_bytes(spoken))

    async def read(self) -> str:
        """The next output, acknowledged as a page does."""
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
    """A terminal whose shell is at its prompt."""
    url = door.urls[number % len(door.urls)]
    async with aiohttp.ClientSession() as http:
        async with http.ws_connect(url, headers=door.headers, max_msg_size=2**24) as socket:
            opened = Terminal(door, socket)
            await opened.type(f"PS1= ; echo re''ady-{number}\r")
            await opened.read_until(f"ready-{number}")
            yield opened


async def echo_p50_us(door: Door) -> float:
    """From a key to its echo by the terminal itself, which no program but `cat` listens to."""
    async with terminal(door) as opened:
        await opened.type("exec 3>&1; (echo st''arted; exec cat >/dev/null)\r")
        await opened.read_until("started")
        await asyncio.sleep(0.1)
        took = []
        for number in range(WARM_UP_KEYS + KEYS):
            began_at = time.perf_counter()
            await opened.type("k")
            await opened.read_until("k")
            took.append(time.perf_counter() - began_at)
            if number % LINE_KEYS == LINE_KEYS - 1:
                await opened.type("\r")
                await opened.read_until("\n")
        await opened.type("\r\x04")
        return statistics.median(took[WARM_UP_KEYS:]) * 1e6


async def bulk_mb_per_s(door: Door) -> float:
    async with terminal(door) as opened:
        script = f"base64 -w 100 /dev/urandom | head -c {BULK_BYTES}; echo; echo do''ne\r"
        began_at = time.perf_counter()
        await opened.type(script)
        await opened.read_until("done")
        return BULK_BYTES / 1e6 / (time.perf_counter() - began_at)


async def stalled_growth_mib(stage: Theatre) -> float:
    """How much the web process grows while a page reads nothing of an endless output."""
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
    """A hundred terminals at once. The numbers that are asked for after the memory are of the same trials."""

    def __init__(self, stage: Theatre) -> None:
        self._stage = stage
        self.threads = 0.0
        self.left = 0.0

    def growth_mib(self) -> float:
        growth, threads, left = asyncio.run(many_terminals(self._stage, TERMINALS))
        self.threads, self.left = max(self.threads, threads), max(self.left, left)
        return growth


async def many_terminals(stage: Theatre, count: int) -> tuple[float, float, float]:
    """(MiB more, threads more, shells left 5 s after they were closed)."""
    shells = await asyncio.to_thread(stage.shells)
    memory, threads = rss_mib(stage.pid), threads_of(stage.pid)
    turn = asyncio.Semaphore(AT_ONCE)
    async with contextlib.AsyncExitStack() as opened:

        async def open_one(number: int) -> None:
            async with turn:
                await opened.enter_async_context(terminal(stage.ours, number))

        await asyncio.gather(*(open_one(number) for number in range(count)))
        grown = rss_mib(stage.pid) - memory
        more_threads = threads_of(stage.pid) - threads
    await asyncio.sleep(GONE_WITHIN_S)
    left = await asyncio.to_thread(stage.shells) - shells
    return grown, more_threads, left


def threads_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))
