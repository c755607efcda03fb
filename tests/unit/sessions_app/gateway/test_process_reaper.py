"""The process reaper ends processes whose connection is gone, and no others."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from agents.models import Agent
from agents.runtime.port_async import Process
from sessions_app.gateway.processes import process_reaper as keepers_module
from sessions_app.gateway.processes.process_reaper import ProcessOwner, ProcessOwners, SharedLeases


class Engine:
    """Notes the keepers whose processes were hung up."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def end_owned_processes(self, container: str, owner: str) -> None:
        self.ended.append(owner)


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
    keepers, is_known, has_left = ProcessOwners(tmp_path), asyncio.Event(), asyncio.Event()

    async def release(owner: ProcessOwner) -> None:
        await is_known.wait()
        owner.leave(cast("Process", Connection()))
        has_left.set()

    async def track() -> None:
        with keepers.new_owner(Agent(), "c") as owner:
            await owner.settle(release(owner))

    carrying: asyncio.Task[Any] = asyncio.get_running_loop().create_task(track())
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
    keepers = ProcessOwners(tmp_path)
    with keepers.new_owner(Agent(), "c") as owner:
        pass
    await keepers.sweep()
    assert engine.ended == [owner.name]
    await keepers.stop()


@pytest.mark.usefixtures("empty_redis")
async def test_processes_of_a_machine_that_is_gone_are_ended_by_another(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def one_container(reader: object) -> list[Agent]:
        return [Agent(name="one")]

    monkeypatch.setattr(keepers_module, "in_database", one_container)
    monkeypatch.setattr(Engine, "running_containers", containers_of_one, raising=False)
    gone, alive, watcher = (ProcessOwners(tmp_path / name) for name in ("gone", "alive", "watcher"))
    await gone.renew()
    for _ in range(SharedLeases.SAME_LOOKS):
        assert engine.ended == []
        await alive.renew()
        await watcher.sweep()
    assert engine.ended == [f"{gone.lease.name}."]
    engine.ended.clear()
    for _ in range(SharedLeases.SAME_LOOKS):
        await alive.renew()
        await watcher.sweep()
    assert engine.ended == []


async def containers_of_one(self: Engine, labels: dict[str, str]) -> list[str]:
    return ["c"]
