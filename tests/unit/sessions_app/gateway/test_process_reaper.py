"""What a sweep ends of the processes whose connection is gone, and what it leaves to others."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from agents.models import Agent
from agents.runtime.port_async import Process
from sessions_app.gateway.processes import process_reaper as keepers_module
from sessions_app.gateway.processes.process_reaper import Keeper, Keepers


class Engine:
    """Notes the keepers whose processes were hung up."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def end_kept(self, container: str, keeper: str) -> None:
        self.ended.append(keeper)


class Connection:
    def leave(self) -> None:
        pass


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine()
    monkeypatch.setattr(keepers_module, "async_runtime_of", lambda agent: engine)
    return engine


async def test_a_process_that_was_left_to_its_container_is_not_hung_up_however_late_that_was_known(
    engine: Engine, tmp_path: Path
) -> None:
    keepers, is_known, has_left = Keepers(tmp_path), asyncio.Event(), asyncio.Event()

    async def let_go(keeper: Keeper) -> None:
        await is_known.wait()
        keeper.leave(cast("Process", Connection()))
        has_left.set()

    async def carry() -> None:
        with keepers.keep(Agent(), "c") as keeper:
            await keeper.settle(let_go(keeper))

    carrying: asyncio.Task[Any] = asyncio.get_running_loop().create_task(carry())
    await asyncio.sleep(0)
    carrying.cancel()
    with suppress(asyncio.CancelledError):
        await carrying

    await keepers.sweep()
    is_known.set()
    await has_left.wait()
    await keepers.sweep()
    assert not engine.ended
    await keepers.stop()
    assert not os.listdir(tmp_path)


async def test_a_process_that_could_not_be_let_go_is_ended_by_the_next_sweep(
    engine: Engine, tmp_path: Path
) -> None:
    keepers = Keepers(tmp_path)
    with keepers.keep(Agent(), "c") as keeper:
        pass
    await keepers.sweep()
    assert engine.ended == [keeper.name]
    await keepers.stop()
