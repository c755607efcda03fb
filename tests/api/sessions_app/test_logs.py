"""REST of logs, complete or followed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError
from django.http import StreamingHttpResponse
from django.test import AsyncClient
from rest_framework.test import APIClient

from agents.runtime.docker.log_entries import LogPart, LogPosition, part_of
from agents.runtime.port import ContainerGone, RuntimeUnavailable
from agents.runtime.simulated.async_runtime import SimulatedAsyncRuntime
from agents.runtime.simulated.values import make_log
from common.actors import SYSTEM
from scheduler.tick import run_tick
from sessions_app.container_io import kept_logs, logs
from sessions_app.core.states import Reason, Status
from sessions_app.launch import launcher, terminator
from sessions_app.models import ComputeSession, Kernel
from sessions_app.reconciler import loop
from sessions_app.termination.service import begin_termination
from tests import factories
from tests.doubles.runtimes import LostRuntime
from tests.factories_sessions import Place, make_place

CONTENT_TYPE = "text/plain; charset=utf-8"


def logs_of(session: ComputeSession) -> str:
    return f"/api/v1/sessions/{session.pk}/logs/"


def container_of(session: ComputeSession) -> str:
    return Kernel.objects.get(session=session).container_name


def write(place: Place, session: ComputeSession, output: bytes) -> None:
    """The session's command says `output` and ends."""
    place.runtime.finish(container_of(session), output=output)


@pytest.mark.django_db
class TestAtOnce:
    def test_before_a_container_is_there_the_log_is_empty(self) -> None:
        place = make_place()
        answer = factories.api_client(place.owner).get(logs_of(place.enqueue()))

        assert (answer.status_code, answer.content) == (200, b"")
        assert answer["Content-Type"] == CONTENT_TYPE

    def test_the_log_is_text_while_it_runs_and_after_the_end(self) -> None:
        place = make_place()
        session, api = place.run(), factories.api_client(place.owner)
        write(place, session, "héllo <b>\n".encode())

        live = api.get(logs_of(session))
        place.end(session)
        ended = api.get(logs_of(session), HTTP_ACCEPT="text/plain")

        assert live.content.decode() == ended.content.decode() == "héllo <b>\n"
        assert ended["Content-Type"] == live["Content-Type"] == CONTENT_TYPE
        assert live["Cache-Control"] == "no-store"
        assert live["X-Content-Type-Options"] == "nosniff"

    def test_another_container_is_named(self) -> None:
        place = make_place()
        session, api = place.run(), factories.api_client(place.owner)

        assert api.get(logs_of(session), {"kernel": "main1"}).status_code == 200
        refused = api.get(logs_of(session), {"kernel": "sub9"}, HTTP_ACCEPT="text/plain")
        assert (refused.status_code, refused["Content-Type"]) == (404, "application/json")
        assert refused.json()["code"] == "not_found"

    def test_a_machine_that_does_not_answer_is_said(self) -> None:
        place = make_place()
        lost = place.replace_runtime(lambda images: LostRuntime(name="lost", images=images))
        session = place.run()
        lost.is_lost = True

        answer = factories.api_client(place.owner).get(logs_of(session))

        assert answer.status_code == 503
        assert place.agent.name in answer.json()["message"]

    def test_admins_read_the_log_and_others_see_no_session(self) -> None:
        place = make_place()
        session = place.run()
        admin = factories.make_user(admin_of=place.project)
        member = factories.make_user(member_of=place.project)

        assert factories.api_client(admin).get(logs_of(session)).status_code == 200
        assert factories.api_client(member).get(logs_of(session)).status_code == 404
        assert APIClient().get(logs_of(session)).status_code == 401


@pytest.mark.django_db(transaction=True)
class TestFollowing:
    async def test_an_ended_session_gives_what_was_kept_and_ends(self) -> None:
        place, session = await sync_to_async(make_ended)(b"done\n")

        assert await everything(await follow(place, session)) == b"done\n"

    async def test_a_running_session_gives_its_output_until_the_container_ends(self) -> None:
        place, session = await sync_to_async(make_running)()
        response = await follow(place, session)
        reading = asyncio.create_task(everything(response))

        await sync_to_async(write)(place, session, b"as it comes\n")

        assert response["Content-Type"] == CONTENT_TYPE
        await sync_to_async(settle)(session)
        assert await reading == b"as it comes\n"

    async def test_a_machine_that_is_lost_for_a_while_leaves_no_gap(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place, session = await sync_to_async(make_running)()
        whole = SimulatedAsyncRuntime.follow_logs
        losses = iter([0, 1])
        has_ended = asyncio.Event()

        async def follow_until_lost(
            self: SimulatedAsyncRuntime, name: str, position: LogPosition, *, has_previews: bool
        ) -> AsyncIterator[LogPart]:
            loss = next(losses, None)
            entries = make_log(self._runtime.output_of(name)[0]).entries
            async for part in whole(self, name, position):
                if loss is not None:
                    if loss:
                        yield part_of(entries[:loss], position)
                    raise RuntimeUnavailable("Engine does not answer: lost")
                yield part
            has_ended.set()

        monkeypatch.setattr(SimulatedAsyncRuntime, "follow_logs", follow_until_lost)
        await sync_to_async(write)(place, session, b"as\nit\ncomes\n")
        reading = asyncio.create_task(everything(await follow(place, session)))
        await soon(has_ended.wait())
        await sync_to_async(settle)(session)
        assert await reading == b"as\nit\ncomes\n"

    async def test_followed_log_ends_after_its_session(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ends, looks = watch_follower(monkeypatch)
        place, session = await sync_to_async(make_running)()
        reading = asyncio.create_task(everything(await follow(place, session)))
        await sync_to_async(write)(place, session, b"done\n")
        await soon(ends.acquire())
        for _ in range(2):  # it stays, and looks whether the session has ended
            await soon(looks.acquire())
        assert not reading.done()

        await sync_to_async(settle)(session)
        await reading
        assert (await sync_to_async(place.fresh)(session)).status == Status.TERMINATED

    async def test_a_session_that_waits_is_waited_for(self) -> None:
        place, session = await sync_to_async(make_placed)()
        reading = asyncio.create_task(everything(await follow(place, session)))

        await sync_to_async(launcher.launch_session)(session.pk)
        await sync_to_async(write)(place, session, b"at last\n")
        await sync_to_async(settle)(session)

        assert await reading == b"at last\n"

    async def test_what_is_removed_while_it_is_followed_ends_the_stream(self) -> None:
        place, session = await sync_to_async(make_running)()
        reading = asyncio.create_task(everything(await follow(place, session)))

        await sync_to_async(end)(session)

        assert await reading == b""

    async def test_a_container_that_goes_while_it_is_read_is_read_on_from_what_was_kept(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place, session = await sync_to_async(make_running)()
        await sync_to_async(write)(place, session, b"one\ntwo\ntwo\nthree\n")
        monkeypatch.setattr(SimulatedAsyncRuntime, "follow_logs", read_two_lines_before(settle, session))

        assert await everything(await follow(place, session)) == b"one\ntwo\ntwo\nthree\n"

    async def test_what_was_not_kept_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        place, session = await sync_to_async(make_running)()
        await sync_to_async(write)(place, session, b"one\ntwo\nthree\nfour\nfive\n")
        monkeypatch.setattr(kept_logs, "LOG_BYTES", 10)
        monkeypatch.setattr(SimulatedAsyncRuntime, "follow_logs", read_two_lines_before(settle, session))

        begin, said, *rest = (await everything(await follow(place, session))).decode().split("\n[")
        said, _, end = said.partition("]\n")
        assert (begin, end, rest) == ("one\ntwo", "four\nfive\n", [])
        assert "between 2000-01-01 00:00:00.000 UTC and" in said
        api = await sync_to_async(factories.api_client)(place.owner)
        plain = (await sync_to_async(api.get)(logs_of(session))).content.decode()
        assert plain.startswith("[Berth: Output before 2000-01-01 00:00:00.000 UTC may be missing")
        assert plain.endswith("]\nfour\nfive\n")

    async def test_a_log_that_breaks_off_does_not_look_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Once, nobody can say whether the reader may read on."""
        place, session = await sync_to_async(make_running)()
        response = await follow(place, session)
        known = logs._log_state

        def log_state(follower: logs.Follower, kernel: Kernel) -> Awaitable[Any]:
            return next(answers, known)(follower, kernel)

        async def unknown(follower: logs.Follower, kernel: Kernel) -> None:
            raise DatabaseError("the database does not answer")

        answers = iter([known, unknown])
        monkeypatch.setattr(logs, "_log_state", log_state)
        monkeypatch.setattr(logs, "RECHECK_S", 0.01)
        monkeypatch.setattr(logs, "UNKNOWN_LIMIT_S", 0.0)
        monkeypatch.setattr(logs, "END_PATIENCE_S", 0.0)
        with pytest.raises(DatabaseError):
            await everything(response)

    async def test_a_session_that_is_tried_again_is_followed_to_its_last_attempt(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ends, _looks = watch_follower(monkeypatch)
        place, session = await sync_to_async(make_running)(type="batch", command="try", max_retries=1)
        reading = asyncio.create_task(everything(await follow(place, session)))
        for output in (b"first\n", b"second\n"):
            container = await sync_to_async(container_of)(session)
            await sync_to_async(place.runtime.finish)(container, exit_code=1, output=output)
            await soon(ends.acquire())
            await sync_to_async(settle)(session)
            if output == b"first\n":
                await sync_to_async(run_again)(place, session)

        assert await reading == b"first\nsecond\n"


def make_running(**changes: object) -> tuple[Place, ComputeSession]:
    place = make_place()
    return place, place.run(**changes)


def run_again(place: Place, session: ComputeSession) -> None:
    run_tick(place.group.pk)
    launcher.launch_session(session.pk)


def watch_follower(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Semaphore, asyncio.Semaphore]:
    """Return what is released whenever a follower has read a container's log to its end, and whenever it looks at the
    session's state after that."""
    ends, looks = asyncio.Semaphore(0), asyncio.Semaphore(0)
    has_ended = asyncio.Event()
    whole, known = SimulatedAsyncRuntime.follow_logs, logs._log_state

    async def follow_logs(
        self: SimulatedAsyncRuntime, name: str, position: LogPosition, *, has_previews: bool
    ) -> AsyncIterator[LogPart]:
        async for part in whole(self, name, position):
            yield part
        has_ended.set()
        ends.release()

    def log_state(follower: logs.Follower, kernel: Kernel) -> Awaitable[Any]:
        if has_ended.is_set():
            looks.release()
        return known(follower, kernel)

    monkeypatch.setattr(SimulatedAsyncRuntime, "follow_logs", follow_logs)
    monkeypatch.setattr(logs, "_log_state", log_state)
    return ends, looks


async def soon(event: Awaitable[object]) -> None:
    async with asyncio.timeout(20):
        await event


def read_two_lines_before(react: Callable[[ComputeSession], None], session: ComputeSession) -> Any:
    """A reader that is slow: when it has two lines of a log, `react` happens to the session and its container is gone."""

    async def follow_logs(
        self: SimulatedAsyncRuntime, name: str, position: LogPosition, *, has_previews: bool
    ) -> AsyncIterator[LogPart]:
        yield part_of(make_log(self._runtime.output_of(name)[0]).entries[:2], position)
        await sync_to_async(react)(session)
        raise ContainerGone(f"No such container: {name}")

    return follow_logs


def make_placed() -> tuple[Place, ComputeSession]:
    place = make_place()
    return place, place.place()


def make_ended(output: bytes) -> tuple[Place, ComputeSession]:
    place, session = make_running()
    write(place, session, output)
    return place, place.end(session)


def settle(session: ComputeSession) -> None:
    """What workers do once a container has ended."""
    loop.reconcile_sessions()
    terminator.end_session(session.pk)


def end(session: ComputeSession) -> None:
    begin_termination(session.pk, reason=Reason.USER_REQUESTED, actor=SYSTEM)
    terminator.end_session(session.pk)


async def follow(place: Place, session: ComputeSession) -> StreamingHttpResponse:
    token = await sync_to_async(factories.make_token)(place.owner)
    headers = {"Authorization": f"Bearer {token}"}
    return await AsyncClient().get(logs_of(session), {"follow": "1"}, headers=headers)


async def everything(response: StreamingHttpResponse) -> bytes:
    async with asyncio.timeout(20):
        return b"".join([chunk async for chunk in response.streaming_content])
