"""Logs that an engine rotates while they are followed."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from itertools import pairwise

import pytest
import pytest_asyncio

from agents.runtime.docker.async_runtime import DockerAsyncRuntime
from agents.runtime.docker.log_entries import LogPart
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import ContainerStatus
from tests import engines
from tests.docker.test_runtime import start
from tests.waiting import wait_until

KEPT_BYTES = 2**18
STEADY_BYTES = 4 * KEPT_BYTES
"""A reader of `steady` may stall for some seconds and misses nothing."""

LINES_KEPT = KEPT_BYTES // 171  # the engine adds 70 bytes to a line of 100

pytestmark = pytest.mark.docker


@pytest_asyncio.fixture
async def async_runtime() -> AsyncGenerator[DockerAsyncRuntime, None]:
    made = DockerAsyncRuntime(engines.ADDRESS)
    yield made
    await made.close()


def fast(count: int) -> tuple[str, ...]:
    return ("awk", f'BEGIN {{ for (i = 1; i <= {count}; i++) printf "%099d\\n", i }}')


def steady(count: int) -> tuple[str, ...]:
    """About a thousand lines a second."""
    pause = 'if (i % 50 == 0) { fflush(); system("sleep 0.05") }'
    return ("awk", f'BEGIN {{ for (i = 1; i <= {count}; i++) {{ printf "%099d\\n", i; {pause} }} }}')


def is_running(runtime: DockerRuntime, name: str) -> bool:
    state = runtime.inspect_container(name)
    return state is not None and state.status is ContainerStatus.RUNNING


async def followed(async_runtime: DockerAsyncRuntime, name: str) -> list[LogPart]:
    async with asyncio.timeout(120):
        return [part async for part in async_runtime.follow_logs(name)]


def demand_accounted(parts: list[LogPart], count: int) -> int:
    """Each line comes once and in order, and no other line is missing than where it is said; return how many came."""
    seen, places = [], set()
    for part in parts:
        if part.gap:
            places.add(len(seen))
        seen += [int(line) for line in part.text.splitlines()]
    assert seen[-1] == count
    missing = {place for place, (one, other) in enumerate(pairwise([0, *seen])) if other != one + 1}
    assert missing <= places
    assert seen == sorted(set(seen))
    return len(seen)


@pytest.mark.parametrize(("program", "times"), [(fast, 1), (fast, 2), (fast, 5), (steady, 5)])
async def test_a_followed_log_that_is_rotated_has_each_line_once_and_says_what_is_missing(
    runtime: DockerRuntime,
    async_runtime: DockerAsyncRuntime,
    program: Callable[[int], tuple[str, ...]],
    times: int,
) -> None:
    count = times * LINES_KEPT
    kept_bytes = STEADY_BYTES if program is steady else KEPT_BYTES
    name = start(runtime, *program(count), log_bytes=kept_bytes)
    came = demand_accounted(await followed(async_runtime, name), count)

    if times == 1 or program is steady:
        assert came == count
    runtime.remove_container(name)


async def test_a_reader_that_comes_when_the_beginning_was_dropped_is_told(
    runtime: DockerRuntime, async_runtime: DockerAsyncRuntime
) -> None:
    name = start(runtime, *fast(2 * LINES_KEPT), log_bytes=KEPT_BYTES)
    wait_until(lambda: not is_running(runtime, name), deadline_s=20, interval_s=0.1)

    demand_accounted(await followed(async_runtime, name), 2 * LINES_KEPT)
    tail = runtime.read_log_tail(name, limit_bytes=2**24)
    assert tail.is_cut
    assert LINES_KEPT * 0.8 < len(tail.entries) <= LINES_KEPT * 1.01
    runtime.remove_container(name)


async def test_pieces_of_a_long_line_come_once_among_lines_of_the_other_stream(
    runtime: DockerRuntime, async_runtime: DockerAsyncRuntime
) -> None:
    """A progress bar is such a line; its pieces bear the time of its beginning."""
    bar = 'BEGIN { for (i = 1; i <= 3000; i++) { printf "\\r%059d", i > "/dev/stderr"; %s } }'
    pause = 'if (i % 300 == 0) { print i; fflush(); system("sleep 0.2") }'
    name = start(runtime, "awk", bar.replace("%s", pause), log_bytes=2**22)

    text = b"".join(part.text for part in await followed(async_runtime, name))
    numbers = [int(number) for number in text.replace(b"\n", b"\r").split(b"\r") if len(number) == 59]
    assert len(text) == 3000 * 60 + sum(len(f"{i}\n") for i in range(300, 3001, 300))
    assert numbers[-1] == 3000
    runtime.remove_container(name)


async def test_a_progress_bar_is_previewed_before_its_line_ends(
    runtime: DockerRuntime, async_runtime: DockerAsyncRuntime
) -> None:
    script = "for i in 1 2 3 4 5 6 7 8; do printf '\\r%d%%' $i >&2; [ $i = 4 ] && echo half; sleep 0.5; done; echo >&2"
    name = start(runtime, "sh", "-c", script)
    async with asyncio.timeout(60):
        parts = [part async for part in async_runtime.follow_logs(name, has_previews=True)]

    kinds = [part.is_preview for part in parts]
    assert not kinds[-1]
    previewed = b"".join(part.text for part in parts if part.is_preview)
    assert b"\r6%\r7%\r8%" in previewed
    assert b"half" not in previewed
    text = b"".join(part.text for part in parts if not part.is_preview)
    assert text == b"half\n\r1%\r2%\r3%\r4%\r5%\r6%\r7%\r8%\n"
    runtime.remove_container(name)
