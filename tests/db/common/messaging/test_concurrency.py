"""Limits of concurrent transfers per user count over all web processes; each object here is one process."""

import asyncio
from contextlib import AsyncExitStack

import pytest
import redis.asyncio

from common.messaging import concurrency
from common.messaging.concurrency import ConcurrencyLimit, TooManyOpen

pytestmark = pytest.mark.usefixtures("empty_redis")
PERSON, OTHER = 1, 2


async def take_when_free(limit: ConcurrencyLimit, deadline_s: float = 30) -> None:
    """Hold one, as soon as one is free, and let it go again."""
    async with asyncio.timeout(deadline_s):
        while True:
            try:
                async with limit.hold(PERSON):
                    return
            except TooManyOpen:
                await asyncio.sleep(0.02)


async def test_all_processes_count_what_one_person_has_open() -> None:
    first, second = ConcurrencyLimit("test", 2), ConcurrencyLimit("test", 2)
    async with first.hold(PERSON), second.hold(PERSON):
        for process in (first, second):
            with pytest.raises(TooManyOpen):
                async with process.hold(PERSON):
                    pass
            async with process.hold(OTHER):
                pass
    await take_when_free(second)


async def test_many_at_the_same_moment_get_no_more_than_there_may_be() -> None:
    processes = [ConcurrencyLimit("test", 5) for _ in range(4)]
    refused = []

    async def hold(process: ConcurrencyLimit, stack: AsyncExitStack) -> None:
        try:
            await stack.enter_async_context(process.hold(PERSON))
        except TooManyOpen:
            refused.append(process)

    async with AsyncExitStack() as stack:
        await asyncio.gather(*(hold(process, stack) for process in processes for _ in range(5)))
        assert len(refused) == 15


async def test_what_a_killed_process_had_open_is_free_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "LEASE_S", 2)
    monkeypatch.setattr(concurrency, "RENEWED_EVERY_S", 0.2)
    killed, living = ConcurrencyLimit("test", 2), ConcurrencyLimit("test", 2)
    async with living.hold(PERSON), killed.hold(PERSON):
        assert killed._renewer is not None
        killed._renewer.cancel()
        await take_when_free(living)  # while what is alive still counts
        async with living.hold(PERSON):
            with pytest.raises(TooManyOpen):
                async with ConcurrencyLimit("test", 2).hold(PERSON):
                    pass


async def test_a_process_counts_for_itself_while_redis_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nobody = redis.asyncio.Redis(host="127.0.0.1", port=1, socket_connect_timeout=1)
    monkeypatch.setattr(concurrency, "quick_async_client", lambda: nobody)
    limit = ConcurrencyLimit("test", 1)
    async with limit.hold(PERSON):
        with pytest.raises(TooManyOpen):
            async with limit.hold(PERSON):
                pass
    async with limit.hold(PERSON):
        pass
