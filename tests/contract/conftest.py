"""Both engines behind one interface, with what contract tests need beyond the port."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from uuid import uuid4

import pytest
import pytest_asyncio

from agents.runtime.docker.async_runtime import DockerAsyncRuntime
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import ContainerRuntime, ContainerSpec, NetworkSpec
from agents.runtime.port_async import AsyncRuntime
from agents.runtime.simulated.async_runtime import SimulatedAsyncRuntime
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.runtime.simulated.state import EngineState, clear_shared_states, shared_state
from agents.runtime.usage import ContainerUsage
from tests import engines


@dataclass(frozen=True, slots=True)
class Rig:
    """An engine under test. Names from `name` are its own; `run_to_end` has a container say something and exit,
    `run_out_of_memory` a program in it. `say`: output that the command of a container has on a real engine."""

    runtime: ContainerRuntime
    make_async: Callable[[], AsyncRuntime]
    run_to_end: Callable[[ContainerSpec, bytes, int], None]
    run_out_of_memory: Callable[[str], None]
    say: Callable[[str, bytes], None] = lambda name, output: None
    forget_image: Callable[[str], None] = engines.remove_image
    image: str = engines.TINY_IMAGE

    def name(self) -> str:
        return f"berth-test-{uuid4().hex[:12]}"

    def spec(self, **changes: object) -> ContainerSpec:
        return engines.tiny_spec(self.name(), **changes)

    def running(self, **changes: object) -> str:
        """Name of a container that runs until it is stopped."""
        spec = self.spec(**changes)
        self.runtime.ensure_container(spec)
        self.runtime.start_container(spec.name)
        return spec.name

    def measure(self, name: str) -> ContainerUsage:
        """From an event loop of its own."""

        async def ask() -> ContainerUsage:
            runtime = self.make_async()
            try:
                return await runtime.measure_container(name)
            finally:
                await runtime.close()

        return asyncio.run(ask())

    def network(self) -> NetworkSpec:
        return NetworkSpec(self.name(), engines.LABELS, pool="10.214.0.0/20")


def _simulated_rig(state: EngineState | None = None) -> Rig:
    runtime = SimulatedRuntime(images=[engines.TINY_IMAGE], state=state)

    def run_to_end(spec: ContainerSpec, output: bytes, exit_code: int) -> None:
        runtime.ensure_container(spec)
        runtime.start_container(spec.name)
        runtime.finish(spec.name, exit_code=exit_code, output=output)

    return Rig(
        runtime,
        lambda: SimulatedAsyncRuntime(runtime),
        run_to_end,
        runtime.kill_for_memory,
        runtime.say,
        runtime.forget_image,
    )


def _docker_rig() -> Rig:
    runtime = DockerRuntime(engines.ADDRESS)

    def run_to_end(spec: ContainerSpec, output: bytes, exit_code: int) -> None:
        script = f"printf '{output.decode()}'; exit {exit_code}"
        runtime.ensure_container(replace(spec, command=("sh", "-c", script)))
        runtime.start_container(spec.name)

    def run_out_of_memory(name: str) -> None:
        assert runtime.run_process(name, ["tail", "/dev/zero"]).exit_code == 137

    return Rig(runtime, lambda: DockerAsyncRuntime(engines.ADDRESS), run_to_end, run_out_of_memory)


@pytest.fixture(scope="module")
def tiny_image() -> Iterator[str]:
    yield engines.make_tiny_image()
    engines.remove_everything()


@pytest.fixture(params=["simulated", "shared", pytest.param("docker", marks=pytest.mark.docker)])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    if request.param == "simulated":
        yield _simulated_rig()
        return
    if request.param == "shared":
        engine = f"test:{uuid4()}"
        yield _simulated_rig(shared_state(engine))
        clear_shared_states(engine)
        return
    request.getfixturevalue("tiny_image")
    made = _docker_rig()
    yield made
    made.runtime.close()


@pytest_asyncio.fixture
async def async_runtime(rig: Rig) -> AsyncIterator[AsyncRuntime]:
    runtime = rig.make_async()
    yield runtime
    await runtime.close()
