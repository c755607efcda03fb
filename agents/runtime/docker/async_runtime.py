"""AsyncRuntime for a Docker engine: processes, files, measurements and live logs."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress

from agents.runtime.docker import logs
from agents.runtime.docker.async_http import EngineHttp, translated
from agents.runtime.docker.connection import understood
from agents.runtime.docker.exec import DockerProcess, end_owned_processes
from agents.runtime.docker.files import DockerFiles
from agents.runtime.docker.log_entries import START, LogPart, LogPosition
from agents.runtime.port import ContainerGone, Credentials
from agents.runtime.port_async import MEASURE_TIMEOUT_S, AsyncRuntime, Process, ProcessSpec
from agents.runtime.port_files import ContainerFiles
from agents.runtime.usage import ContainerUsage, parse_usage


class DockerAsyncRuntime(AsyncRuntime):
    """One Docker engine, for one event loop.
    `address` is `unix:///path`, `tcp://host:port` or `ssh://user@host`.
    """

    def __init__(self, address: str, credentials: Credentials | None = None) -> None:
        self.address = address
        self._http = EngineHttp(address, credentials)

    async def open_process(self, name: str, spec: ProcessSpec) -> Process:
        process = DockerProcess(self._http, name, spec)
        try:
            await process.start()
        except BaseException:
            await process.close()
            raise
        return process

    async def end_owned_processes(self, name: str, owner: str) -> None:
        with suppress(ContainerGone):
            await end_owned_processes(self._http, name, owner)

    async def running_containers(self, labels: Mapping[str, str]) -> list[str]:
        filters = {
            "status": ["running"],
            "label": [f"{label}={value}" for label, value in labels.items()],
        }
        found = await self._http.call("GET", "/containers/json", filters=json.dumps(filters))
        with understood(self.address):
            return sorted(container["Names"][0].removeprefix("/") for container in found)

    async def measure_container(self, name: str) -> ContainerUsage:
        # One sample: by default the engine takes two, one second apart.
        query = {"stream": "0", "one-shot": "1"}
        with translated(self.address):
            async with asyncio.timeout(MEASURE_TIMEOUT_S):
                stats = await self._http.call("GET", f"/containers/{name}/stats", None, **query)
        with understood(self.address):
            if not stats.get("memory_stats"):
                raise ContainerGone(f"Container {name} is not running.")
            return parse_usage(stats)

    def files(self, name: str) -> ContainerFiles:
        return DockerFiles(self._http, name, self.open_process)

    def follow_logs(
        self, name: str, position: LogPosition = START, *, has_previews: bool = False
    ) -> AsyncGenerator[LogPart, None]:
        return logs.follow(self._http, name, position, has_previews=has_previews)

    async def read_last_line(self, name: str) -> bytes:
        with translated(self.address):
            async with asyncio.timeout(MEASURE_TIMEOUT_S):
                return await logs.last_line(self._http, name)

    async def close(self) -> None:
        await self._http.close()
