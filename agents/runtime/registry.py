"""Cache of runtimes by agent address: one per agent and process, and one per agent and event loop."""

import asyncio
from threading import Lock
from urllib.parse import parse_qs, urlsplit
from weakref import WeakKeyDictionary

from django.conf import settings

from agents.runtime.addresses import SHARED, SIMULATED
from agents.runtime.docker.async_runtime import DockerAsyncRuntime
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import ContainerRuntime, Credentials
from agents.runtime.port_async import AsyncRuntime
from agents.runtime.simulated.async_runtime import SimulatedAsyncRuntime
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.runtime.simulated.state import Behaviour, shared_state
from common.values.resources import MILLI

_lock = Lock()
_runtimes: dict[str, tuple[Credentials | None, ContainerRuntime]] = {}
_async_runtimes: WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[str, tuple[Credentials | None, AsyncRuntime]]
] = WeakKeyDictionary()


def runtime_for(address: str, credentials: Credentials | None = None) -> ContainerRuntime:
    """Return the runtime for an agent's address. It connects at its first call and reconnects after
    a failure. Other credentials replace it: none are kept that were rotated. Raises RuntimeRefused for a
    network address without credentials.

    `simulated://name?cpu=8&mem_gib=16&delay_ms=100&image=berth/python:1` is a simulated engine in
    the memory of this process. With `shared=1` all processes of the portal share its state and it
    has every image; `gpu` and `gpu_slot` set its devices, `start_s`, `run_s`, `fail` and `lose` how its
    containers behave.
    """
    with _lock:
        known, runtime = _runtimes.get(address, (None, None))
        if runtime is None or known != credentials:
            if runtime is not None:
                runtime.close()
            runtime = _make(address, credentials)
            _runtimes[address] = credentials, runtime
        return runtime


def adopt_runtime(address: str, runtime: ContainerRuntime) -> None:
    """Register `runtime` for this address, e.g. a test double or a benchmark's engine."""
    with _lock:
        _runtimes[address] = None, runtime


def async_runtime_for(address: str, credentials: Credentials | None = None) -> AsyncRuntime:
    """Return the async runtime for an agent's address in the running event loop."""
    runtimes = _async_runtimes.setdefault(asyncio.get_running_loop(), {})
    known, found = runtimes.get(address, (None, None))
    if found is None or known != credentials:
        runtime = runtime_for(address, credentials)
        if isinstance(runtime, SimulatedRuntime):
            found = SimulatedAsyncRuntime(runtime)
        else:
            found = DockerAsyncRuntime(address, credentials)
        runtimes[address] = credentials, found
    return found


async def close_async_runtimes() -> None:
    """Close and forget all runtimes of the running event loop; called when it shuts down."""
    for _credentials, runtime in _async_runtimes.pop(asyncio.get_running_loop(), {}).values():
        await runtime.close()


def _make(address: str, credentials: Credentials | None) -> ContainerRuntime:
    if not address.startswith(SIMULATED):
        return DockerRuntime(address, credentials)
    parts = urlsplit(address)
    options = {name: values[0] for name, values in parse_qs(parts.query).items()}
    is_shared = SHARED in parts.query
    return SimulatedRuntime(
        name=parts.netloc,
        cpu_milli=int(options.get("cpu", 8)) * MILLI,
        mem_bytes=int(options.get("mem_gib", 16)) * 2**30,
        delay_s=float(options.get("delay_ms", 0)) / 1000,
        images=parse_qs(parts.query).get("image", []),
        has_any_image=is_shared,
        devices={options.get("gpu_slot", "gpu"): int(options["gpu"]) * MILLI} if "gpu" in options else {},
        behaviour=Behaviour(*(float(options.get(name, 0)) for name in ("start_s", "run_s", "fail", "lose"))),
        state=shared_state(f"{settings.BERTH_INSTALLATION}:{parts.netloc}") if is_shared else None,
    )
