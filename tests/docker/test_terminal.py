"""Terminals on a real engine: real shells that end with their page."""

import asyncio
from collections.abc import Iterator

import aiohttp
import pytest
from asgiref.sync import sync_to_async

from agents.models import Agent
from agents.runtime.registry import close_async_runtimes, runtime_for
from tests.engines import ADDRESS, make_tiny_image, remove_everything, tiny_spec
from tests.ws.stage import PORTAL_HOST, Browser, Stage, gateway, set_stage, signed_in

pytestmark = pytest.mark.docker
in_thread = sync_to_async


@pytest.fixture(scope="module", autouse=True)
def tiny_image() -> Iterator[None]:
    make_tiny_image()
    yield
    remove_everything()


@pytest.fixture
def stage(transactional_db: None) -> Stage:
    """A running session whose container is real."""
    stage = set_stage()
    stage.run()
    kernel = stage.session.kernels.get()
    Agent.objects.filter(pk=kernel.agent_id).update(address=ADDRESS)
    runtime = runtime_for(ADDRESS)
    runtime.ensure_container(tiny_spec(kernel.container_name))
    runtime.start_container(kernel.container_name)
    return stage


def processes(stage: Stage) -> str:
    name = stage.session.kernels.get().container_name
    return runtime_for(ADDRESS).run_process(name, ("ps", "-o", "args")).output.decode()


async def opened(browser: Browser, stage: Stage) -> aiohttp.ClientWebSocketResponse:
    await signed_in(browser, stage.owner)
    path = f"/ws/sessions/{stage.session.pk}/terminal/"
    return await browser.websocket(PORTAL_HOST, path)  # type: ignore[no-any-return]


async def read_until(socket: aiohttp.ClientWebSocketResponse, ending: bytes) -> bytes:
    """Output up to and with `ending`, acknowledged as a browser does."""
    seen = b""
    while ending not in seen:
        data = (await socket.receive(timeout=20)).data
        assert isinstance(data, bytes), data
        seen += data
        await socket.send_json({"type": "ack", "bytes": len(data)})
    return seen


async def test_a_real_shell_has_the_pages_size_and_tells_its_end(stage: Stage) -> None:
    async with gateway() as browser:
        socket = await opened(browser, stage)
        await socket.send_str('{"type": "resize", "columns": 101, "rows": 33}')
        await socket.send_bytes(b"stty size; echo do''ne\n")
        assert b"33 101" in await read_until(socket, b"done")
        await socket.send_bytes(b"exit 7\n")
        while (message := await socket.receive(timeout=20)).type is aiohttp.WSMsgType.BINARY:
            pass
        assert message.json() == {"type": "exit", "code": 7}
    await close_async_runtimes()


async def test_much_output_passes_whole(stage: Stage) -> None:
    async with gateway() as browser:
        socket = await opened(browser, stage)
        await socket.send_bytes(b"stty -echo; head -c 8000000 /dev/zero | tr '\\0' x; echo do''ne\n")
        seen = await read_until(socket, b"done")
        assert seen.count(b"x") >= 8_000_000
        await socket.close()
    await close_async_runtimes()


async def test_shells_and_what_runs_in_them_end_with_the_page(stage: Stage) -> None:
    async with gateway() as browser:
        sockets = [await opened(browser, stage) for _ in range(3)]
        for socket in sockets:
            await socket.send_bytes(b"echo re''ady; exec sleep 4321\n")
            await read_until(socket, b"ready")
        async with asyncio.timeout(20):
            while (await in_thread(processes)(stage)).count("sleep 4321") < 3:
                pass
        for socket in sockets:
            socket._response.connection.transport.abort()
        async with asyncio.timeout(20):
            while "sleep 4321" in await in_thread(processes)(stage):
                pass
    await close_async_runtimes()
