"""A terminal over its websocket, on a simulated engine whose shells echo."""

import asyncio
import contextlib
import json
from typing import Any

import aiohttp
import pytest
from asgiref.sync import sync_to_async

from accounts.core.roles import Role
from accounts.models import BrowserLogin
from agents.models import Agent
from agents.runtime.port_async import Channel, Process, ProcessSpec
from agents.runtime.registry import close_async_runtimes
from agents.runtime.simulated.async_runtime import EchoProcess, SimulatedAsyncRuntime
from sessions_app.gateway.activity.recorder import ActivityRecorder
from sessions_app.gateway.auth.authorizer import authorizer
from sessions_app.gateway.processes import process_socket, terminal_socket
from sessions_app.gateway.proxy import open_connections
from sessions_app.gateway.proxy.open_connections import ConnectionKind, OpenConnections
from tests import factories
from tests.ws.servers import wait_for
from tests.ws.stage import PORTAL_HOST, Browser, Stage, gateway, signed_in

in_thread = sync_to_async


@pytest.fixture
def running(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """The session's container on a simulated engine; access is looked at again ten times a second."""
    quick = OpenConnections(authorizer().still_present, recheck_s=0.1)
    monkeypatch.setattr(process_socket, "open_connections", lambda: quick)
    stage.run_container()
    return stage


def path_of(stage: Stage, query: str = "") -> str:
    return f"/ws/sessions/{stage.session.pk}/terminal/{query}"


async def receive_text(socket: aiohttp.ClientWebSocketResponse) -> dict[str, Any]:
    message = await socket.receive(timeout=10)
    assert message.type is aiohttp.WSMsgType.TEXT, message
    return json.loads(message.data)  # type: ignore[no-any-return]


async def read_until_silence(socket: aiohttp.ClientWebSocketResponse) -> int:
    got = 0
    with contextlib.suppress(asyncio.TimeoutError):
        while True:
            got += len((await socket.receive(timeout=0.5)).data)
    return got


async def closing_code(socket: aiohttp.ClientWebSocketResponse) -> int | None:
    while (await socket.receive(timeout=10)).type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
        pass
    return socket.close_code


async def test_what_is_typed_comes_back_and_the_end_is_told(running: Stage) -> None:
    async with gateway() as browser:
        await signed_in(browser, running.owner)
        async with browser.websocket(PORTAL_HOST, path_of(running, "?kernel=main1")) as socket:
            await socket.send_str('{"type": "resize", "columns": 120, "rows": 40}')
            await socket.send_bytes("ls /grüße\n".encode())
            assert (await socket.receive()).data == "ls /grüße\n".encode()
            await socket.send_bytes(b"exit\n")
            assert (await socket.receive()).data == b"exit\n"
            assert await receive_text(socket) == {"type": "exit", "code": 0}
            assert await closing_code(socket) == 1000


async def test_several_terminals_do_not_mix(running: Stage) -> None:
    async with gateway() as browser:
        await signed_in(browser, running.owner)
        sockets = [await browser.websocket(PORTAL_HOST, path_of(running)) for _ in range(3)]
        for number, socket in enumerate(sockets):
            await socket.send_bytes(b"%d" % number)
        assert [(await socket.receive()).data for socket in sockets] == [b"0", b"1", b"2"]
        for socket in sockets:
            await socket.close()


async def test_a_shell_ends_with_its_page(running: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    shells: list[Process] = []
    closed: list[Process] = []
    open_process = SimulatedAsyncRuntime.open_process

    async def remember(self: SimulatedAsyncRuntime, name: str, spec: ProcessSpec) -> Process:
        shell = await open_process(self, name, spec)
        shells.append(shell)
        close = shell.close

        async def close_and_remember() -> bool:
            closed.append(shell)
            return await close()

        monkeypatch.setattr(shell, "close", close_and_remember)
        return shell

    monkeypatch.setattr(SimulatedAsyncRuntime, "open_process", remember)
    async with gateway() as browser:
        await signed_in(browser, running.owner)
        socket = await browser.websocket(PORTAL_HOST, path_of(running))
        await socket.send_bytes(b"x")
        await socket.receive()
        socket._response.connection.transport.abort()
        await wait_for(lambda: shells and closed == shells)


async def test_output_stops_until_it_is_acknowledged(running: Stage) -> None:
    block = bytes(64 * 1024)
    async with gateway() as browser:
        await signed_in(browser, running.owner)
        async with browser.websocket(PORTAL_HOST, path_of(running)) as socket:
            for _ in range(16):
                await socket.send_bytes(block)
            got = await read_until_silence(socket)
            assert terminal_socket.WINDOW_BYTES < got <= terminal_socket.WINDOW_BYTES + len(block)
            await socket.send_str(json.dumps({"type": "ack", "bytes": got}))
            while got < 16 * len(block):
                got += len((await socket.receive(timeout=10)).data)


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "null", "{}", '{"type": "ack"}', '{"type": "resize", "columns": "x"}']
)
async def test_nonsense_closes_the_terminal_with_a_word(running: Stage, text: str) -> None:
    async with gateway() as browser:
        await signed_in(browser, running.owner)
        async with browser.websocket(PORTAL_HOST, path_of(running)) as socket:
            await socket.send_str(text)
            assert (await receive_text(socket))["type"] == "error"
            assert await closing_code(socket) == 4400


async def test_more_than_a_program_takes_in_is_refused(
    running: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal_socket.TerminalSocket, "input_limit", 1000)
    async with gateway() as browser:
        await signed_in(browser, running.owner)
        async with browser.websocket(PORTAL_HOST, path_of(running)) as socket:
            await socket.send_bytes(bytes(1001))
            assert (await receive_text(socket))["type"] == "error"


async def refusal(browser: Browser, stage: Stage, query: str = "") -> tuple[str, int | None]:
    async with browser.websocket(PORTAL_HOST, path_of(stage, query)) as socket:
        return (await receive_text(socket))["message"], await closing_code(socket)


async def test_only_the_owner_gets_a_shell(running: Stage) -> None:
    stranger = await in_thread(factories.make_user)()
    admin = await in_thread(factories.make_user)(role=Role.SUPERADMIN, domain=running.session.domain)
    async with gateway() as browser:
        assert (await refusal(browser, running))[1] == 4401
        await signed_in(browser, stranger)
        assert (await refusal(browser, running))[1] == 4404
        await signed_in(browser, admin)
        assert (await refusal(browser, running))[1] == 4403


async def test_a_session_that_does_not_run_says_so(stage: Stage) -> None:
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        message, code = await refusal(browser, stage)
    assert (code, "pending" in message) == (4409, True)


async def test_an_unknown_container_is_not_found(running: Stage) -> None:
    async with gateway() as browser:
        await signed_in(browser, running.owner)
        assert (await refusal(browser, running, "?kernel=sub7"))[1] == 4404


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://lab-abcdefghijklm.apps.localhost:8080", "null"]
)
async def test_a_page_of_another_origin_gets_no_shell(running: Stage, origin: str) -> None:
    async with gateway() as browser:
        await signed_in(browser, running.owner)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await browser.websocket(PORTAL_HOST, path_of(running), origin=origin)
    assert refused.value.status == 403


@pytest.mark.parametrize(
    "end", [lambda stage: BrowserLogin.objects.all().delete(), Stage.stop], ids=["sign-out", "stop"]
)
async def test_a_shell_is_cut_when_access_ends(running: Stage, end) -> None:  # type: ignore[no-untyped-def]
    async with gateway() as browser:
        await signed_in(browser, running.owner)
        async with browser.websocket(PORTAL_HOST, path_of(running)) as socket:
            await socket.send_bytes(b"x")
            await socket.receive()
            await in_thread(end)(running)
            assert (await receive_text(socket))["type"] == "error"
            assert await closing_code(socket) == 4403


async def test_output_of_a_terminal_is_work_once_somebody_has_typed_in_it(
    running: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    shells: list[EchoProcess] = []
    noted = ActivityRecorder()
    monkeypatch.setattr(process_socket, "activity_recorder", lambda: noted)
    monkeypatch.setattr(SimulatedAsyncRuntime, "open_process", opening(shells))
    async with gateway() as browser:
        await signed_in(browser, running.owner)
        async with browser.websocket(PORTAL_HOST, path_of(running)) as socket:
            await wait_for(lambda: shells)
            for prompt in (b"$ ", b"% "):  # a page that connects anew by itself gets one
                shells[0]._said.put_nowait((Channel.OUTPUT, prompt))
                assert (await socket.receive(timeout=10)).data == prompt
            assert running.session.pk not in noted._seen

            await socket.send_bytes(b"watch")
            assert (await socket.receive(timeout=10)).data == b"watch"
            noted._seen.clear()
            shells[0]._said.put_nowait((Channel.OUTPUT, b"epoch 7\n"))
            assert (await socket.receive(timeout=10)).data == b"epoch 7\n"
            await wait_for(lambda: running.session.pk in noted._seen)


def opening(shells: list[EchoProcess]):  # type: ignore[no-untyped-def]
    """What opens processes and remembers them."""
    open_process = SimulatedAsyncRuntime.open_process

    async def remember(self: SimulatedAsyncRuntime, name: str, spec: ProcessSpec) -> Process:
        shell = await open_process(self, name, spec)
        assert isinstance(shell, EchoProcess)
        shells.append(shell)
        return shell

    return remember


async def test_a_session_has_a_bounded_number_of_terminals(
    running: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(open_connections.LIMITS, ConnectionKind.TERMINAL, 1)
    async with gateway() as browser:
        await signed_in(browser, running.owner)
        async with browser.websocket(PORTAL_HOST, path_of(running)) as first:
            await first.send_bytes(b"x")
            await first.receive()
            assert (await refusal(browser, running))[1] == 4429


async def test_an_engine_that_does_not_answer_lets_the_page_try_again(stage: Stage) -> None:
    await in_thread(stage.run)()
    update = in_thread(Agent.objects.filter(kernels__session=stage.session).update)
    await update(address="unix:///nonexistent/engine.sock")
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        async with browser.websocket(PORTAL_HOST, path_of(stage)) as socket:
            assert await closing_code(socket) == 1011
    await close_async_runtimes()
