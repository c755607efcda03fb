"""Pages that are shown while an app cannot answer."""

import asyncio
import socket
from collections.abc import Iterator

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings

from sessions_app.gateway.auth import authorizer
from sessions_app.gateway.proxy import open_connections
from sessions_app.gateway.proxy.open_connections import ConnectionKind
from tests.ws.servers import serve_app
from tests.ws.stage import NAVIGATION, Browser, Stage, gateway, sample_app, signed_in

in_thread = sync_to_async
LAB = {"name": "lab", "title": "Lab", "port": 1, "command": ["lab"]}


async def opened(browser: Browser, stage: Stage, app: str) -> str:
    """The host of an app for which the owner has a cookie."""
    await signed_in(browser, stage.owner)
    await browser.visit(stage.host(app))
    return stage.host(app)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Nobody listens there, and nobody else gets it meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


async def test_a_waiting_session_turns_into_its_app_by_itself(stage: Stage) -> None:
    async with serve_app(sample_app()) as port, gateway() as browser:
        await in_thread(stage.declare)(LAB | {"port": port})
        host = await opened(browser, stage, "lab")
        page = await browser.request("GET", host, "/", headers=NAVIGATION)
        assert page.status == 503
        assert 'http-equiv="refresh"' in page.text
        assert "Lab opens as soon as it can" in page.text
        assert "waits for a machine with room" in page.text
        await in_thread(stage.run)()
        async with asyncio.timeout(10):
            while (await browser.request("GET", host, "/", headers=NAVIGATION)).status != 200:
                await asyncio.sleep(0.05)


async def test_pages_of_the_gateway_run_nothing_and_are_kept_nowhere(stage: Stage) -> None:
    async with gateway() as browser:
        await in_thread(stage.declare)(LAB)
        host = await opened(browser, stage, "lab")
        page = await browser.request("GET", host, "/", headers=NAVIGATION)
    policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'nonce-")
    assert "<script" not in page.text
    assert page.headers["Cache-Control"] == "no-store"


async def test_an_app_that_is_not_up_is_started_once(
    stage: Stage, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(authorizer, "start_app", lambda _session_id, app: started.append(app))
    async with gateway() as browser:
        await in_thread(stage.declare)(LAB | {"port": closed_port})
        await in_thread(stage.run)()
        host = await opened(browser, stage, "lab")
        pages = [await browser.request("GET", host, "/", headers=NAVIGATION) for _ in range(3)]
        plain = await browser.request("GET", host, "/api")
    assert all(page.status == 503 and "Lab is starting" in page.text for page in pages)
    assert (plain.status, plain.headers["Content-Type"]) == (503, "text/plain; charset=utf-8")
    assert started == ["lab"]


async def test_an_app_that_cannot_be_started_says_why(stage: Stage, closed_port: int) -> None:
    async with gateway() as browser:
        await in_thread(stage.declare)(LAB | {"port": closed_port})
        await in_thread(stage.run)()
        host = await opened(browser, stage, "lab")
        # The first page asked the engine, which this agent does not have.
        page = await browser.request("GET", host, "/", headers=NAVIGATION)
    assert page.status in (502, 503)


async def test_a_port_without_server_says_what_to_do(stage: Stage, closed_port: int) -> None:
    async with gateway() as browser:
        await in_thread(stage.run)()
        host = await opened(browser, stage, f"p{closed_port}")
        page = await browser.request("GET", host, "/", headers=NAVIGATION)
    assert page.status == 502
    assert f"Nothing listens on port {closed_port}" in page.text


async def test_an_unknown_app_names_the_known_ones(stage: Stage) -> None:
    async with gateway() as browser:
        await in_thread(stage.declare)(LAB)
        await in_thread(stage.run)()
        host = await opened(browser, stage, "rstudio")
        page = await browser.request("GET", host, "/", headers=NAVIGATION)
    assert page.status == 404
    assert "lab" in page.text


async def test_an_ended_session_says_so(stage: Stage) -> None:
    async with gateway() as browser:
        await in_thread(stage.run)()
        await in_thread(stage.stop)()
        host = await opened(browser, stage, "lab")
        page = await browser.request("GET", host, "/", headers=NAVIGATION)
    assert page.status == 410
    assert "has ended" in page.text


async def test_a_name_that_is_no_app_is_nothing(stage: Stage) -> None:
    async with gateway() as browser:
        for name in ("x", "www", "a.b"):
            host = f"{name}.{settings.BERTH_APPS_DOMAIN}:8080"
            assert (await browser.request("GET", host, "/")).status == 404


async def test_a_session_has_a_bounded_number_of_requests(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(open_connections.LIMITS, ConnectionKind.REQUEST, 2)
    async with serve_app(sample_app()) as port, gateway() as browser:
        await in_thread(stage.run)()
        host = await opened(browser, stage, f"p{port}")
        streams = [asyncio.create_task(browser.request("GET", host, "/stream")) for _ in range(2)]
        async with asyncio.timeout(10):
            while (await browser.request("GET", host, "/")).status != 503:
                await asyncio.sleep(0.02)
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
