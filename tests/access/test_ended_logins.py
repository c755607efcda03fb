"""Every route answers an ended login as it answers an anonymous user."""

from collections.abc import Callable
from datetime import timedelta
from http.cookies import SimpleCookie
from itertools import count

import aiohttp
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.test import Client
from rest_framework.test import APIClient

from accounts.models import BrowserLogin, Domain, KeyPair, User
from common import clock
from tests import factories
from tests.access.matrix import APP, EXEC, OURS, REST_ROWS, SIGN_IN, TERMINAL
from tests.access.test_gateway import process
from tests.access.test_matrix import ask, word_for
from tests.access.world import World, sign_in
from tests.ws.servers import serve_app
from tests.ws.stage import PORTAL_HOST, Browser, gateway, sample_app, set_stage

in_thread = sync_to_async
HOUR_AGO = timedelta(hours=1)
_numbers = count(1)


def expire(user: User) -> None:
    KeyPair.objects.filter(user=user).update(expires_at=clock.now() - HOUR_AGO)
    BrowserLogin.objects.all().update(expire_date=clock.now() - HOUR_AGO)


def revoke(user: User) -> None:
    KeyPair.objects.filter(user=user).delete()
    BrowserLogin.objects.all().delete()


def switch_off(user: User) -> None:
    KeyPair.objects.filter(user=user).update(is_active=False)
    user.set_password(f"a new harbour {next(_numbers)}")  # ends what was signed in with the old one
    user.save()


def close_account(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def close_domain(user: User) -> None:
    Domain.objects.filter(pk=user.domain_id).update(is_active=False)


ENDS: tuple[Callable[[User], None], ...] = (expire, revoke, switch_off, close_account, close_domain)
GARBLED_TOKENS = ("", "x", "bk", f"bk{'a' * 16}.{'b' * 43}", "\0", "é", "x" * 100_000)
GARBLED_COOKIES = ("", "x", "é", "x" * 4000, "a%00b", '"a\\000b"')


@pytest.mark.walk
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_routes_answer_an_ended_login_as_an_anonymous_user(world: World, end: Callable[[User], None]) -> None:
    user = factories.make_user()  # of a domain of its own, which may be closed
    program, browser = APIClient(), Client(headers={"host": "localhost:8080"})
    program.credentials(HTTP_AUTHORIZATION=f"Bearer {factories.make_token(user)}")
    browser.cookies = SimpleCookie({settings.SESSION_COOKIE_NAME: sign_in(user)})
    assert program.get("/api/v1/me/").status_code == browser.get("/profile/").status_code == 200
    end(user)

    assert answers(world, program, browser) == as_nobody()


def test_garbled_tokens_and_cookies_are_nobody(world: World) -> None:
    rest = next(row for row in REST_ROWS if row.route == "api-session-detail" and row.method == "GET")
    for token in GARBLED_TOKENS:
        program = APIClient()
        program.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        answer = ask(world, rest, "anonymous", client=program)
        assert answer.status_code == 401
        assert answer.json()["code"] == "not_authenticated"
        assert answer["WWW-Authenticate"] == 'Bearer realm="berth"'
        assert "Authorization: Bearer" in answer.json()["hint"]
    for cookie in GARBLED_COOKIES:
        browser = Client(
            headers={"cookie": f"{settings.SESSION_COOKIE_NAME}={cookie}", "host": "localhost:8080"}
        )
        assert browser.get("/profile/").status_code == 302
        assert ask(world, rest, "anonymous", client=browser).status_code == 401  # type: ignore[arg-type]


def answers(world: World, program: APIClient, browser: Client) -> dict[str, str]:
    return {
        str(row): word_for(ask(world, row, "anonymous", client=program if row in REST_ROWS else browser))
        for row in OURS
    }


def as_nobody() -> dict[str, str]:
    return {str(row): row.cells["anonymous"] for row in OURS}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
async def test_websockets_and_apps_too(end: Callable[[User], None]) -> None:
    stage = await in_thread(set_stage)()
    token = await in_thread(factories.make_token)(stage.owner)
    cookie = await in_thread(sign_in)(stage.owner)
    async with serve_app(sample_app()) as port, gateway() as browser:
        lab = {"name": "lab", "title": "Lab", "port": port, "command": ["lab"]}
        await in_thread(stage.declare)(lab)
        await in_thread(stage.run)()
        await in_thread(end)(stage.owner)
        for given in (cookie, "garbled"):
            browser.cookies = {PORTAL_HOST: {settings.SESSION_COOKIE_NAME: given}}
            code = await closing_code(browser, f"/ws/sessions/{stage.session.pk}/terminal/")
            assert code == TERMINAL.cells["anonymous"]
            browser.cookies = {PORTAL_HOST: {settings.SESSION_COOKIE_NAME: given}}
            answer = await browser.visit(stage.host("lab"))
            assert APP.cells["anonymous"] == SIGN_IN
            assert 'name="password"' in answer.text
        for given in (token, "garbled"):
            code = await process(browser, given, f"/api/v1/sessions/{stage.session.pk}/exec/")
            assert code == EXEC.cells["anonymous"]


async def closing_code(browser: Browser, path: str) -> str:
    async with browser.websocket(PORTAL_HOST, path) as socket:
        message = await socket.receive(timeout=30)
        while message.type is aiohttp.WSMsgType.TEXT:
            message = await socket.receive(timeout=30)
        return str(socket.close_code)
