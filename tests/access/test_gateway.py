"""Access to terminals and apps of a session: the rows of the matrix beside Django's routes."""

from typing import Any

import aiohttp
import pytest
from asgiref.sync import sync_to_async

from accounts.models import User
from sessions_app.gateway.routing import program_urlpatterns, websocket_urlpatterns
from tests import factories
from tests.access.matrix import (
    APP,
    APP_BY_ADDRESS,
    COLUMNS,
    EXEC,
    OPEN,
    SIGN_IN,
    TERMINAL,
    TOKENS_AT_GATEWAY,
)
from tests.access.world import make_owners_tokens, make_people
from tests.factories_sessions import make_place
from tests.ws.gateway.test_app_ports import ADDRESS, PlainBrowser, link, plain_gateway
from tests.ws.servers import serve_app
from tests.ws.stage import PORTAL_HOST, Browser, gateway, sample_app, set_stage, signed_in

in_thread = sync_to_async
pytestmark = pytest.mark.django_db(transaction=True)


def test_every_websocket_has_a_row() -> None:
    patterns = [*websocket_urlpatterns, *program_urlpatterns]
    assert [pattern.name for pattern in patterns] == [TERMINAL.route, EXEC.route]


async def test_terminals_open_as_the_matrix_says() -> None:
    place = await in_thread(make_place)()
    session = await in_thread(place.run)()
    people = await in_thread(make_people)(place.project, place.owner)
    path = f"/ws/sessions/{session.pk}/terminal/"
    async with gateway() as browser:
        codes = {column: await terminal(browser, people.get(column), path) for column in COLUMNS}
    assert codes == TERMINAL.cells


async def test_processes_run_as_the_matrix_says() -> None:
    place = await in_thread(make_place)()
    session = await in_thread(place.run)()
    people = await in_thread(make_people)(place.project, place.owner)
    tokens = {column: await in_thread(factories.make_token)(user) for column, user in people.items()}
    path = f"/api/v1/sessions/{session.pk}/exec/"
    async with gateway() as browser:
        codes = {column: await process(browser, tokens.get(column, ""), path) for column in COLUMNS}
    assert codes == EXEC.cells


async def test_apps_open_as_the_matrix_says() -> None:
    stage = await in_thread(set_stage)()
    people = await in_thread(make_people)(stage.cluster.project, stage.owner)
    async with serve_app(sample_app()) as port, gateway() as browser:
        lab = {"name": "lab", "title": "Lab", "port": port, "command": ["lab"]}
        await in_thread(stage.declare)(lab)
        await in_thread(stage.run)()
        answers = {column: await app(browser, people.get(column), stage.host("lab")) for column in COLUMNS}
    assert answers == APP.cells


async def test_apps_at_ports_open_as_the_matrix_says(settings: Any) -> None:
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, ADDRESS]
    stage = await in_thread(set_stage)()
    people = await in_thread(make_people)(stage.cluster.project, stage.owner)
    async with serve_app(sample_app()) as port, plain_gateway() as browser:
        lab = {"name": "lab", "title": "Lab", "port": port, "command": []}
        await in_thread(stage.declare)(lab)
        await in_thread(stage.run)()
        await app_by_address(browser, stage.owner, browser.portal, link(stage))
        door = browser.seen[-1]
        from_link = {
            column: await app_by_address(browser, people.get(column), browser.portal, link(stage))
            for column in COLUMNS
        }
        straight = {column: await app_by_address(browser, people.get(column), door) for column in COLUMNS}
    assert from_link == straight == APP_BY_ADDRESS.cells


async def test_programs_with_less_get_what_the_matrix_says(settings: Any) -> None:
    """A token that may only read, and one that has expired, at all four."""
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, ADDRESS]
    stage = await in_thread(set_stage)()
    tokens = await in_thread(make_owners_tokens)(stage.owner)
    terminal_path = f"/ws/sessions/{stage.session.pk}/terminal/"
    exec_path = f"/api/v1/sessions/{stage.session.pk}/exec/"
    answers: dict[str, dict[str, str]] = {route: {} for route in TOKENS_AT_GATEWAY}
    async with serve_app(sample_app()) as port, gateway() as browser, plain_gateway() as by_address:
        lab = {"name": "lab", "title": "Lab", "port": port, "command": ["lab"]}
        await in_thread(stage.declare)(lab)
        await in_thread(stage.run)()
        await app_by_address(by_address, stage.owner, by_address.portal, link(stage))
        door = by_address.seen[-1]
        by_address.cookies.clear()
        for column, token in tokens.items():
            bearer = {"Authorization": f"Bearer {token}"}
            answers[TERMINAL.route][column] = await closing_code(browser, terminal_path, bearer)
            answers[EXEC.route][column] = await process(browser, token, exec_path)
            at_host = await browser.request("GET", stage.host("lab"), "/", headers=bearer)
            answers[APP.route][column] = str(at_host.status)
            at_port = await by_address.request("GET", door, "/", headers=bearer)
            answers[APP_BY_ADDRESS.route][column] = str(at_port.status)
    assert answers == TOKENS_AT_GATEWAY


def test_programs_with_less_have_a_row_for_each_way() -> None:
    assert set(TOKENS_AT_GATEWAY) == {row.route for row in (TERMINAL, EXEC, APP, APP_BY_ADDRESS)}


async def closing_code(browser: Browser, path: str, headers: dict[str, str]) -> str:
    sent = {**headers, "Host": PORTAL_HOST, "Origin": f"http://{PORTAL_HOST}"}
    async with browser.http.ws_connect(f"http://127.0.0.1:{browser.port}{path}", headers=sent) as socket:
        message = await socket.receive(timeout=30)
        while message.type is aiohttp.WSMsgType.TEXT:
            message = await socket.receive(timeout=30)
        return str(socket.close_code)


async def terminal(browser: Browser, user: User | None, path: str) -> str:
    """The code with which the terminal is closed, or that it echoes."""
    await become(browser, user)
    async with browser.websocket(PORTAL_HOST, path) as socket:
        await socket.send_bytes(b"x")
        message = await socket.receive(timeout=10)
        while message.type is aiohttp.WSMsgType.TEXT:
            message = await socket.receive(timeout=10)
        return OPEN if message.type is aiohttp.WSMsgType.BINARY else str(socket.close_code)


async def process(browser: Browser, token: str, path: str) -> str:
    """The code with which the websocket is closed, or that the process runs."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with browser.http.ws_connect(f"http://127.0.0.1:{browser.port}{path}", headers=headers) as socket:
        await socket.send_json({"argv": ["echo"]})
        message = await socket.receive(timeout=10)
        if message.type is aiohttp.WSMsgType.TEXT and "started" in message.json():
            return OPEN
        await socket.receive(timeout=10)
        return str(socket.close_code)


async def app(browser: Browser, user: User | None, host: str) -> str:
    await become(browser, user)
    answer = await browser.visit(host)
    return SIGN_IN if 'name="password"' in answer.text else str(answer.status)


async def app_by_address(browser: PlainBrowser, user: User | None, host: str, path: str = "/") -> str:
    browser.cookies.clear()
    if user is not None:
        await browser.sign_in(user)
    answer = await browser.go(host, path)
    return SIGN_IN if 'name="password"' in answer.text else str(answer.status)


async def become(browser: Browser, user: User | None) -> None:
    browser.cookies.clear()
    if user is not None:
        await signed_in(browser, user)
