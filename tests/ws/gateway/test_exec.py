"""Processes of a session over the exec websocket, on a simulated engine whose processes echo."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from asgiref.sync import sync_to_async

from accounts.models import KeyPair
from agents.runtime.port import ContainerGone
from agents.runtime.port_async import PROCESS_OWNER_VARIABLE, Channel, Process, ProcessSpec
from agents.runtime.simulated.async_runtime import EchoProcess, SimulatedAsyncRuntime
from sessions_app.gateway.activity.recorder import ActivityRecorder
from sessions_app.gateway.auth.authorizer import authorizer
from sessions_app.gateway.processes import exec_protocol, process_socket
from sessions_app.gateway.processes import exec_socket as gateway_exec
from sessions_app.gateway.proxy.open_connections import OpenConnections
from sessions_app.models import Interaction
from tests import factories
from tests.ws.servers import wait_for
from tests.ws.stage import Browser, Stage, gateway

in_thread = sync_to_async
PATIENCE_S = 30


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[EchoProcess]:
    """The processes that were opened, in order."""
    found: list[EchoProcess] = []
    open_process = SimulatedAsyncRuntime.open_process

    async def remember(self: SimulatedAsyncRuntime, name: str, spec: ProcessSpec) -> Process:
        process = await open_process(self, name, spec)
        assert isinstance(process, EchoProcess)
        found.append(process)
        return process

    monkeypatch.setattr(SimulatedAsyncRuntime, "open_process", remember)
    return found


@pytest.fixture
def running(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    quick = OpenConnections(authorizer().still_present, recheck_s=0.1)
    monkeypatch.setattr(process_socket, "open_connections", lambda: quick)
    stage.run_container()
    return stage


@pytest.fixture
def token(stage: Stage) -> str:
    return factories.make_token(stage.owner)


@asynccontextmanager
async def connected(
    stage: Stage, token: str, *, query: str = "", **more: Any
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with gateway() as browser, connection(browser, stage, token, query=query, **more) as socket:
        yield socket


def connection(browser: Browser, stage: Stage, token: str, *, query: str = "", **more: Any) -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    address = f"http://127.0.0.1:{browser.port}/api/v1/sessions/{stage.session.pk}/exec/{query}"
    return browser.http.ws_connect(address, headers=headers, **more)


async def receive_text(socket: aiohttp.ClientWebSocketResponse) -> Any:
    message = await socket.receive(timeout=PATIENCE_S)
    return json.loads(message.data) if message.type is aiohttp.WSMsgType.TEXT else message.data


async def refusal(socket: aiohttp.ClientWebSocketResponse) -> tuple[str, int | None]:
    """The code of the error, and that of the close."""
    error = (await receive_text(socket))["error"]
    assert set(error) == {"code", "message", "hint"}
    await socket.receive(timeout=PATIENCE_S)
    return error["code"], socket.close_code


STARTED = {"started": {"window": exec_protocol.INPUT_WINDOW_BYTES}}


async def test_input_comes_back_and_the_end_of_input_ends_it(running: Stage, token: str) -> None:
    async with connected(running, token) as socket:
        await socket.send_json({"argv": ["echo"]})
        assert await receive_text(socket) == STARTED
        await socket.send_bytes(b"\0gr\xc3\xbc\xc3\x9fe\n")
        assert await receive_text(socket) == b"\1gr\xc3\xbc\xc3\x9fe\n"
        await socket.send_bytes(b"\0")
        assert await receive_text(socket) == {"exit_code": 0}
        await socket.receive(timeout=PATIENCE_S)
        assert socket.close_code == 1000


async def test_output_and_errors_are_apart_and_the_exit_code_is_last(running: Stage, token: str) -> None:
    async with connected(running, token) as socket:
        await socket.send_json({"argv": ["complain", "no", "room"]})
        assert [await receive_text(socket) for _ in range(3)] == [STARTED, b"\2no room", {"exit_code": 1}]


async def test_a_program_that_is_not_there_ends_with_127(running: Stage, token: str) -> None:
    async with connected(running, token) as socket:
        await socket.send_json({"argv": ["nonsense"]})
        assert [await receive_text(socket) for _ in range(2)] == [STARTED, {"exit_code": 127}]


async def test_what_was_asked_reaches_the_engine(
    running: Stage, token: str, opened: list[EchoProcess]
) -> None:
    order = {"tty": True, "env": {"A": "b"}, "cwd": "/tmp", "rows": 30, "cols": 100}
    async with connected(running, token) as socket:
        await socket.send_json(order)
        await receive_text(socket)
        await socket.send_json({"resize": {"rows": 50, "cols": 5000}})
        await socket.send_json({"signal": "USR1"})
        await wait_for(lambda: opened[0].signals, deadline_s=PATIENCE_S)
    spec = opened[0].spec
    assert (spec.argv, spec.has_terminal, spec.environment, spec.working_dir) == (
        (),
        True,
        {"A": "b"},
        "/tmp",
    )
    assert opened[0].sizes == [(100, 30), (1000, 50)]
    assert opened[0].signals == ["USR1"]
    assert spec.owner
    assert PROCESS_OWNER_VARIABLE not in spec.environment


async def test_input_is_acknowledged(running: Stage, token: str) -> None:
    block = b"\0" + bytes(2**17)
    async with connected(running, token) as socket:
        await socket.send_json({"argv": ["echo"]})
        acknowledged = echoed = 0
        for _ in range(20):
            await socket.send_bytes(block)
            while echoed < len(block) - 1 or acknowledged < len(block) - 1:
                said = await receive_text(socket)
                if isinstance(said, bytes):
                    echoed += len(said) - 1
                elif "ack" in said:
                    acknowledged += said["ack"]
            echoed, acknowledged = echoed - len(block) + 1, acknowledged - len(block) + 1


class StubbornProcess(EchoProcess):
    """Takes no input."""

    _kept = 0

    def write(self, data: bytes) -> None:
        self._kept += len(data)

    @property
    def unwritten_bytes(self) -> int:
        return self._kept

    async def drain(self) -> None:
        await asyncio.Event().wait()


async def test_more_input_than_the_window_is_refused_and_signals_get_through_before(
    running: Stage, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[StubbornProcess] = []

    async def open_stubborn(self: SimulatedAsyncRuntime, name: str, spec: ProcessSpec) -> Process:
        made.append(StubbornProcess(spec))
        return made[0]

    monkeypatch.setattr(SimulatedAsyncRuntime, "open_process", open_stubborn)
    async with connected(running, token) as socket:
        await socket.send_json({"argv": ["echo"]})
        assert await receive_text(socket) == STARTED
        await socket.send_bytes(b"\0" + bytes(exec_protocol.INPUT_WINDOW_BYTES))
        await socket.send_json({"signal": "USR1"})
        await wait_for(lambda: made[0].signals == ["USR1"], deadline_s=PATIENCE_S)
        await socket.send_bytes(b"\0x")
        assert await refusal(socket) == ("invalid", 4400)


@pytest.mark.parametrize(
    "messages",
    [
        ["x"], ["[]"], ["{}"], ['{"argv": []}'], ["[" * 100_000], [b"\0early"], ['{"argv": ["echo"], "x": 1}'],
        ['{"argv": ["echo"]}', "{}"], ['{"argv": ["echo"]}', "null"], ['{"argv": ["echo"]}', '{"signal": "POLL"}'],
        ['{"argv": ["echo"]}', '{"resize": {"rows": "x"}}'], ['{"argv": ["echo"]}', b"\1x"],
        ['{"argv": ["echo"]}', b""], ['{"argv": ["echo"]}', b"\0", b"\0more"], ["x" * 300_000],
        ['{"argv": ["echo"]}', '{"resize": {"rows": 1e999, "cols": 1}}'],
    ],
)  # fmt: skip
async def test_nonsense_ends_it_with_a_word(running: Stage, token: str, messages: list[Any]) -> None:
    async with connected(running, token) as socket:
        for message in messages:
            await (socket.send_str(message) if isinstance(message, str) else socket.send_bytes(message))
        while "started" in (said := await receive_text(socket)) or "exit_code" in said:
            if "exit_code" in said:
                return  # the end of input was an end before the nonsense
        assert said["error"]["code"] == "invalid"
        await socket.receive(timeout=PATIENCE_S)
        assert socket.close_code == 4400


async def test_a_token_may_come_as_a_subprotocol(running: Stage, token: str) -> None:
    protocols = ("berth.exec.v1", f"berth.bearer.{token}")
    async with connected(running, "", protocols=protocols) as socket:
        assert socket.protocol == "berth.exec.v1"
        await socket.send_json({"argv": ["exit", "7"]})
        assert [await receive_text(socket) for _ in range(2)] == [STARTED, {"exit_code": 7}]


async def test_without_a_token_nothing_runs(running: Stage) -> None:
    for token in ("", "garbled", "bkaaaaaaaaaaaaaaaa." + "x" * 43):
        async with connected(running, token) as socket:
            assert await refusal(socket) == ("not_authenticated", 4401)


async def test_a_session_that_does_not_run_and_a_container_that_is_not_there_say_so(
    stage: Stage, token: str
) -> None:
    async with connected(stage, token) as socket:
        assert await refusal(socket) == ("conflict", 4409)
    async with connected(stage, token, query="?kernel=sub9") as socket:
        assert await refusal(socket) == ("not_found", 4404)


async def test_a_container_without_a_shell_says_so(
    running: Stage, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: SimulatedAsyncRuntime, name: str, spec: ProcessSpec) -> Process:
        raise ContainerGone("no shell")

    monkeypatch.setattr(SimulatedAsyncRuntime, "open_process", refuse)
    async with connected(running, token) as socket:
        await socket.send_json({"argv": ["echo"]})
        assert await refusal(socket) == ("no_shell", 4410)


async def test_silent_client_is_disconnected(
    running: Stage, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_exec, "ORDER_PATIENCE_S", 0.1)
    async with connected(running, token) as socket:
        assert await refusal(socket) == ("invalid", 4400)


async def test_a_process_ends_with_its_connection(
    running: Stage, token: str, opened: list[EchoProcess]
) -> None:
    async with gateway() as browser:
        socket = await connection(browser, running, token)
        await socket.send_json({"argv": ["echo"]})
        await receive_text(socket)
        socket._response.connection.transport.abort()
        await wait_for(lambda: opened[0]._has_ended, deadline_s=PATIENCE_S)


async def test_output_that_somebody_takes_is_work(
    running: Stage, token: str, opened: list[EchoProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = ActivityRecorder()
    monkeypatch.setattr(process_socket, "activity_recorder", lambda: noted)
    async with connected(running, token) as socket:
        await socket.send_json({"argv": ["echo"]})
        await receive_text(socket)
        noted._seen.clear()  # that it was started
        opened[0]._said.put_nowait((Channel.OUTPUT, b"epoch 7\n"))
        assert (await socket.receive(timeout=PATIENCE_S)).data == b"\x01epoch 7\n"
        await wait_for(lambda: noted._seen, deadline_s=PATIENCE_S)
        assert noted._seen[running.session.pk][1] == Interaction.COMMAND


async def test_a_process_is_cut_when_its_token_is_deleted(running: Stage, token: str) -> None:
    async with connected(running, token) as socket:
        await socket.send_json({"argv": ["echo"]})
        await receive_text(socket)
        await in_thread(KeyPair.objects.all().delete)()
        assert await refusal(socket) == ("access_ended", 4403)


async def test_a_session_that_ends_leaves_its_processes_the_time_to_end_themselves(
    running: Stage, token: str, opened: list[EchoProcess]
) -> None:
    async with connected(running, token) as socket:
        await socket.send_json({"argv": ["echo"]})
        await receive_text(socket)
        await in_thread(running.stop)()
        assert await refusal(socket) == ("access_ended", 4403)
        await wait_for(lambda: opened[0].is_left, deadline_s=PATIENCE_S)
        assert not opened[0]._has_ended


async def test_a_person_has_a_bounded_number_of_processes(
    running: Stage, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_socket.open_processes, "limit", 1)
    async with gateway() as browser, connection(browser, running, token) as first:
        await first.send_json({"argv": ["echo"]})
        await receive_text(first)
        async with connection(browser, running, token) as second:
            await second.send_json({"argv": ["echo"]})
            assert await refusal(second) == ("too_many", 4429)
