"""Terminal sizes are retried until the engine takes them, and the newest size wins."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from agents.runtime.docker import exec as docker_exec
from agents.runtime.docker.async_http import EngineHttp
from agents.runtime.docker.exec import DockerProcess
from agents.runtime.port import ContainerGone, RuntimeFault, RuntimeRefused, RuntimeUnavailable
from agents.runtime.port_async import ProcessSpec

DEADLINE_S = 30
BUSY = RuntimeRefused("timeout waiting for exec session ready")


class BusyEngine:
    """Answers sizes with these faults, one after the other, and then takes them. While `gate` is shut, sizes wait."""

    address = "unix:///busy"

    def __init__(self, *faults: RuntimeFault, runs: bool = True) -> None:
        self.faults = list(faults)
        self.state: dict[str, object] | RuntimeFault = {"Running": runs, "ExitCode": None}
        self.bodies: dict[str, Mapping[str, object]] = {}
        self.asked: list[tuple[int, int]] = []
        self.taken: list[tuple[int, int]] = []
        self.is_asked, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    async def call(
        self, method: str, url: str, body: Mapping[str, object] | None = None, **query: str
    ) -> Any:
        if url.endswith("/resize"):
            return await self._resize((int(query["w"]), int(query["h"])))
        if url.endswith("/json"):
            if isinstance(self.state, RuntimeFault):
                raise self.state
            return self.state
        self.bodies[url] = body or {}
        return {"Id": "1"}

    async def hijack(self, url: str, body: Mapping[str, object]) -> tuple[None, bytes]:
        self.bodies[url] = body
        return None, b"PID:7\n" if body["Tty"] else b"\1\0\0\0\0\0\0\6PID:7\n"

    async def _resize(self, size: tuple[int, int]) -> None:
        self.asked.append(size)
        self.is_asked.set()
        await self.gate.wait()
        if self.faults:
            raise self.faults.pop(0)
        self.taken.append(size)


async def started(engine: BusyEngine, spec: ProcessSpec) -> DockerProcess:
    process = DockerProcess(cast("EngineHttp", engine), "lab", spec)
    async with asyncio.timeout(DEADLINE_S):
        await process.start()
    return process


async def test_a_terminal_that_has_started_has_its_size_however_busy_the_engine_was() -> None:
    engine = BusyEngine(BUSY, RuntimeUnavailable("no answer"), BUSY)
    await started(engine, ProcessSpec(columns=100, rows=30))
    assert engine.taken == [(100, 30)]


async def test_newer_engines_make_the_terminal_with_its_size() -> None:
    engine = BusyEngine()
    await started(engine, ProcessSpec(columns=100, rows=30))
    assert [body["ConsoleSize"] for body in engine.bodies.values()] == [[30, 100]] * 2
    without = BusyEngine()
    await started(without, ProcessSpec(argv=("cat",), has_terminal=False))
    assert not without.asked
    assert not any("ConsoleSize" in body for body in without.bodies.values())


async def test_a_newer_size_wins_over_one_that_the_engine_still_refuses() -> None:
    engine = BusyEngine()
    process = await started(engine, ProcessSpec(columns=100, rows=30))
    engine.faults = [BUSY]
    engine.is_asked.clear()
    engine.gate.clear()
    older = asyncio.create_task(process.resize(90, 20))
    async with asyncio.timeout(DEADLINE_S):
        await engine.is_asked.wait()
        newer = asyncio.create_task(process.resize(120, 40))
        await asyncio.sleep(0)
        engine.gate.set()
        await asyncio.gather(older, newer)
    assert engine.asked[1:] == [(90, 20), (120, 40)]
    assert engine.taken == [(100, 30), (120, 40)]


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        (BUSY, {"Running": False}),
        (BUSY, ContainerGone("no such exec")),
        (ContainerGone("no such exec"), RuntimeUnavailable("no answer")),
    ],
)
async def test_what_has_ended_is_asked_once(
    fault: RuntimeFault, state: dict[str, object] | RuntimeFault
) -> None:
    engine = BusyEngine()
    process = await started(engine, ProcessSpec())
    engine.faults, engine.state = [fault] * 9, state
    async with asyncio.timeout(DEADLINE_S):
        await process.resize(90, 20)
    assert engine.asked[1:] == [(90, 20)]


async def test_an_engine_that_never_takes_it_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_exec, "RESIZE_PATIENCE_S", 0.05)
    monkeypatch.setattr(docker_exec, "RESIZE_PAUSE_S", 0.001)
    engine = BusyEngine(*[BUSY] * 10_000)
    engine.state = RuntimeUnavailable("no answer")
    await started(engine, ProcessSpec())
    assert len(engine.asked) > 1
    assert not engine.taken
