"""A busy notebook kernel counts as activity; an idle one, or an unreadable answer, does not.

`tests/docker/test_notebooks.py` holds what is made up here to a real server.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from aiohttp import web
from asgiref.sync import sync_to_async
from django.core.cache import cache

from common import clock
from sessions_app.gateway.activity import jupyter as activity_jupyter
from sessions_app.gateway.activity.jupyter import NotebookPoller, has_busy_kernel, servers_to_poll
from sessions_app.gateway.activity.recorder import ActivityRecorder
from sessions_app.idle import enforcer
from sessions_app.models import ComputeSession, SessionIdle
from tests.ws.stage import Stage

pytestmark = pytest.mark.usefixtures("empty_redis")

HOUR = timedelta(hours=1)
COMMAND = ["jupyter", "lab", "--ServerApp.port={port}", "--IdentityProvider.token={token}"]


class Jupyter:
    """As much of its server as is asked: a list of notebook kernels, for who has the token."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.states: list[str] = []
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def kernels(self, request: web.Request) -> web.Response:
        self.asked += 1
        await self.may_answer.wait()
        if request.headers.get("Authorization") != f"token {self.token}":
            return web.json_response({"message": "Forbidden"}, status=403)
        return web.json_response(
            [
                {"id": str(index), "name": "python3", "execution_state": state, "connections": 0}
                for index, state in enumerate(self.states)
            ]
        )


@asynccontextmanager
async def served(jupyter: Jupyter) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/api/kernels", jupyter.kernels)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def declare(stage: Stage, port: int, command: list[str] | None = None) -> None:
    stage.declare(
        {"name": "lab", "title": "Lab", "port": port, "command": COMMAND if command is None else command}
    )


def unused(stage: Stage, for_so_long: timedelta = HOUR) -> None:
    """It runs, may be unused for an hour, and has been for `for_so_long`."""
    stage.run()
    since = clock.now() - for_so_long
    ComputeSession.objects.filter(pk=stage.session.pk).update(started_at=since)
    SessionIdle.objects.update_or_create(
        session=stage.session, defaults={"max_idle_s": 3600, "measured_from": since}
    )


async def recorded(watch: NotebookPoller, recorder: ActivityRecorder) -> str:
    """By what its session was seen at work after one round."""
    cache.clear()
    await watch.poll()
    await recorder.report()
    row = await SessionIdle.objects.aget()
    return str(row.interaction)


async def test_a_busy_notebook_kernel_is_work_and_an_idle_one_is_not(stage: Stage) -> None:
    await sync_to_async(unused)(stage)
    recorder = ActivityRecorder()
    watch = NotebookPoller(recorder)
    jupyter = Jupyter(stage.session.app_token)
    async with served(jupyter) as port:
        await sync_to_async(declare)(stage, port)
        jupyter.states = ["idle", "starting"]
        assert await recorded(watch, recorder) == ""
        jupyter.states = ["idle", "busy"]
        assert await recorded(watch, recorder) == "notebook"
        row = await SessionIdle.objects.aget()
        assert clock.now() - row.interacted_at < timedelta(seconds=30)
    await watch.stop()


async def test_a_session_that_computes_in_a_notebook_does_not_end(stage: Stage) -> None:
    await sync_to_async(unused)(stage)
    recorder = ActivityRecorder()
    watch = NotebookPoller(recorder)
    jupyter = Jupyter(stage.session.app_token)
    jupyter.states = ["busy"]
    async with served(jupyter) as port:
        await sync_to_async(declare)(stage, port)
        await recorded(watch, recorder)
        await sync_to_async(enforcer.enforce_idle_limits)(clock.now())
    row = await SessionIdle.objects.aget()
    session = await ComputeSession.objects.select_related("resource_group", "idle").aget()
    ends = enforcer.expected_ends(enforcer.idle_facts(session, row))
    assert all(end.at > clock.now() + HOUR - timedelta(minutes=1) for end in ends)
    await watch.stop()


async def test_a_server_that_hangs_refuses_or_is_gone_keeps_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity_jupyter, "PATIENCE_S", 0.5)
    await sync_to_async(unused)(stage)
    recorder = ActivityRecorder()
    watch = NotebookPoller(recorder)
    jupyter = Jupyter("another token")
    jupyter.states = ["busy"]
    async with served(jupyter) as port:
        await sync_to_async(declare)(stage, port)
        assert await recorded(watch, recorder) == ""
        jupyter.token = stage.session.app_token
        jupyter.may_answer.clear()
        assert await recorded(watch, recorder) == ""
        assert jupyter.asked == 2
        jupyter.may_answer.set()
    assert await recorded(watch, recorder) == ""
    await watch.stop()


async def test_a_server_that_is_a_fault_of_ours_costs_itself_alone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_transport: object, _server: object) -> bool:
        raise RecursionError

    await sync_to_async(unused)(stage)
    await sync_to_async(declare)(stage, 8888)
    watch = NotebookPoller(ActivityRecorder())
    monkeypatch.setattr(activity_jupyter, "is_computing", fails)
    cache.clear()
    await watch.poll()
    await watch.stop()


async def test_of_an_image_with_many_servers_only_the_first_are_asked(stage: Stage) -> None:
    await sync_to_async(unused)(stage)
    apps = [
        {"name": f"lab{port}", "title": "Lab", "port": port, "command": COMMAND} for port in range(8888, 8893)
    ]
    await sync_to_async(stage.declare)(*apps)
    cache.clear()
    asked = await sync_to_async(servers_to_poll)()
    assert [server.target.port for server in asked] == [8888, 8889]


async def test_only_one_of_all_processes_asks_in_a_minute(stage: Stage) -> None:
    await sync_to_async(unused)(stage)
    await sync_to_async(declare)(stage, 8888)
    first = await sync_to_async(servers_to_poll)()
    assert [server.session_id for server in first] == [stage.session.pk]
    assert await sync_to_async(servers_to_poll)() == []


@pytest.mark.parametrize(
    ("command", "for_so_long"),
    [
        (["tensorboard", "--t={token}"], HOUR),
        (["jupyter", "lab"], HOUR),
        ([], HOUR),
        (COMMAND, timedelta(minutes=20)),
    ],
    ids=["another program", "no token", "not started by us", "its end is far"],
)
async def test_nobody_else_is_asked(stage: Stage, command: list[str], for_so_long: timedelta) -> None:
    await sync_to_async(unused)(stage, for_so_long)
    await sync_to_async(declare)(stage, 8888, command)
    assert await sync_to_async(servers_to_poll)() == []


@pytest.mark.parametrize(
    ("body", "is_busy"),
    [
        (b'[{"execution_state": "busy"}]', True),
        (b'[{"execution_state": "idle"}, 3, {}]', False),
        (b'{"execution_state": "busy"}', False),
        (b"[", False),
        (b"[" * 200_000, False),
        (b"\xff", False),
        (b"", False),
    ],
)
def test_only_a_list_of_kernels_says_that_one_is_busy(body: bytes, is_busy: bool) -> None:
    assert has_busy_kernel(body) is is_busy
