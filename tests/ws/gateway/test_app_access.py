"""Access to apps: ways to get it, and how long it lasts."""

import asyncio
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp import web
from asgiref.sync import sync_to_async
from django.conf import settings

from accounts.core.roles import Role
from accounts.core.token_secrets import hash_secret, new_secret
from accounts.models import BrowserLogin, Membership
from sessions_app.models import AppGrant, AppLogin
from tests import factories
from tests.ws.servers import serve_app
from tests.ws.stage import NAVIGATION, PORTAL_HOST, Browser, Stage, gateway, sample_app, sign_in, signed_in

in_thread = sync_to_async


@pytest.fixture
async def app(stage: Stage):  # type: ignore[no-untyped-def]
    """An app called `lab` that wants a token, up in the running session; the port it listens on."""
    async with serve_app(sample_app()) as port:
        lab = {"name": "lab", "title": "Lab", "port": port, "command": ["lab", "--token={token}"]}
        await in_thread(stage.declare)(lab)
        await in_thread(stage.run)()
        yield port


async def test_a_person_gets_from_the_link_to_the_app(stage: Stage, app: int) -> None:
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        answer = await browser.visit(stage.host("lab"), "/tree%2Fx?a=1")
        assert (answer.status, answer.text) == (200, "the app at /tree%2Fx?a=1")
        cookies = browser.cookies[stage.host("lab")]
        assert set(cookies) == {"__Host-berth-app", "__Host-berth-state"}
        assert cookies["__Host-berth-app"] not in str(await in_thread(list)(AppLogin.objects.values()))
        assert await in_thread(AppGrant.objects.count)() == 0


async def test_a_port_of_the_session_opens_like_an_app(stage: Stage, app: int) -> None:
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        assert (await browser.visit(stage.host(f"p{app}"))).text == "the app at /"


async def test_secrets_of_the_portal_stay_here_and_the_apps_token_is_added(stage: Stage) -> None:
    seen: list[web.Request] = []
    async with serve_app(sample_app(seen)) as port, gateway() as browser:
        await in_thread(stage.declare)(
            {"name": "lab", "title": "Lab", "port": port, "command": ["lab", "{token}"]}
        )
        await in_thread(stage.run)()
        await signed_in(browser, stage.owner)
        await browser.visit(stage.host("lab"))
        for host in (stage.host("lab"), stage.host(f"p{port}")):
            await browser.visit(host)
            browser.cookies[host] |= {
                settings.SESSION_COOKIE_NAME: "s",
                settings.CSRF_COOKIE_NAME: "c",
                "_xsrf": "x",
            }
            await browser.request(
                "GET", host, "/", headers={"Authorization": "Bearer bkabcdefghijklmnop.secret"}
            )
    lab, port_app = seen[-3], seen[-1]
    assert lab.headers["Cookie"] == port_app.headers["Cookie"] == "_xsrf=x"
    assert lab.headers["Authorization"] == f"token {stage.session.app_token}"
    assert "Authorization" not in port_app.headers


async def test_an_app_is_framed_by_nobody_else(stage: Stage, app: int) -> None:
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        answer = await browser.visit(stage.host("lab"))
        assert answer.headers.getall("Content-Security-Policy") == ["default-src *", "frame-ancestors 'self'"]
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"


async def test_without_cookie_only_a_navigation_is_sent_to_the_portal(stage: Stage, app: int) -> None:
    async with gateway() as browser:
        plain = await browser.request("GET", stage.host("lab"), "/api")
        assert plain.status == 401
        assert "Location" not in plain.headers
        page = await browser.request("GET", stage.host("lab"), "/lab", headers=NAVIGATION)
        assert page.status == 302
        target = urlsplit(page.headers["Location"])
        assert f"{target.scheme}://{target.netloc}{target.path}" == f"{settings.BERTH_URL}/apps/authorize/"
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await browser.websocket(stage.host("lab"), "/ws")
        assert refusal.value.status == 401


async def test_a_person_who_is_not_signed_in_is_asked_to(stage: Stage, app: int) -> None:
    async with gateway() as browser:
        page = await browser.request("GET", stage.host("lab"), "/", headers=NAVIGATION)
        target = urlsplit(page.headers["Location"])
        answer = await browser.request("GET", PORTAL_HOST, f"{target.path}?{target.query}")
        assert answer.status == 302
        assert answer.headers["Location"].startswith("/account/login/?next=/apps/authorize/")


async def test_after_a_form_of_the_portal_a_page_leads_on(stage: Stage, app: int) -> None:
    """Browsers forbid the redirects that follow a form to leave the portal."""
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        page = await browser.request("GET", stage.host("lab"), "/", headers=NAVIGATION)
        target = urlsplit(page.headers["Location"])
        headers = NAVIGATION | {"Sec-Fetch-Site": "same-origin"}
        answer = await browser.request("GET", PORTAL_HOST, f"{target.path}?{target.query}", headers=headers)
        assert answer.status == 200
        assert f'content="0; url=http://{stage.host("lab")}/.berth/callback?code=' in answer.text


@pytest.mark.parametrize("role", [Role.USER, Role.DOMAIN_ADMIN, Role.SUPERADMIN])
async def test_only_the_owner_is_let_in(stage: Stage, app: int, role: Role) -> None:
    domain = None if role is Role.USER else stage.session.domain
    other = await in_thread(factories.make_user)(domain=domain, role=role)
    async with gateway() as browser:
        await signed_in(browser, other)
        answer = await browser.visit(stage.host("lab"))
        assert answer.status == (404 if role is Role.USER else 403)
        assert await in_thread(AppGrant.objects.count)() == 0


async def test_a_hidden_session_and_an_absent_one_answer_alike(stage: Stage, app: int) -> None:
    stranger = await in_thread(factories.make_user)()
    absent = f"lab-{'a' * 16}.{settings.BERTH_APPS_DOMAIN}:8080"
    async with gateway() as browser:
        await signed_in(browser, stranger)
        hidden_answer, absent_answer = [await browser.visit(host) for host in (stage.host("lab"), absent)]
        assert hidden_answer.status == absent_answer.status == 404


async def authorized(browser: Browser, stage: Stage) -> tuple[str, dict[str, str]]:
    """The way to the callback, not yet gone: its path, and the query's values."""
    page = await browser.request("GET", stage.host("lab"), "/x", headers=NAVIGATION)
    target = urlsplit(page.headers["Location"])
    answer = await browser.request("GET", PORTAL_HOST, f"{target.path}?{target.query}")
    assert answer.status == 303
    back = urlsplit(answer.headers["Location"])
    assert back.netloc == stage.host("lab")
    return f"{back.path}?{back.query}", {name: values[0] for name, values in parse_qs(back.query).items()}


async def test_a_code_works_once(stage: Stage, app: int) -> None:
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        path, _ = await authorized(browser, stage)
        assert (await browser.request("GET", stage.host("lab"), path, headers=NAVIGATION)).status == 303
        assert (await browser.request("GET", stage.host("lab"), path, headers=NAVIGATION)).status == 403


async def test_a_code_is_for_its_host_and_its_browser(stage: Stage, app: int) -> None:
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        path, _ = await authorized(browser, stage)
        elsewhere = stage.host(f"p{app}")
        browser.cookies[elsewhere] = dict(browser.cookies[stage.host("lab")])
        assert (await browser.request("GET", elsewhere, path, headers=NAVIGATION)).status == 403
        path, _ = await authorized(browser, stage)
        browser.cookies.pop(stage.host("lab"))
        assert (await browser.request("GET", stage.host("lab"), path, headers=NAVIGATION)).status == 403


async def test_a_code_dies_with_time(stage: Stage, app: int) -> None:
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        path, _ = await authorized(browser, stage)
        await in_thread(lambda: AppGrant.objects.update(expires_at="2020-01-01T00:00Z"))()
        assert (await browser.request("GET", stage.host("lab"), path, headers=NAVIGATION)).status == 403


@pytest.mark.parametrize(
    "place", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"]
)
async def test_the_way_back_never_leaves_the_host(stage: Stage, app: int, place: str) -> None:
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        _, values = await authorized(browser, stage)
        query = "&".join(f"{name}={value}" for name, value in (values | {"next": place}).items())
        path = f"/.berth/callback?{query}"
        answer = await browser.request("GET", stage.host("lab"), path, headers=NAVIGATION)
        assert (answer.status, answer.headers["Location"]) == (303, "/")


async def test_the_portal_sends_codes_to_app_hosts_only(stage: Stage, app: int) -> None:
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        for host in ("evil.example", "x", f"lab-{stage.session.host_label}.evil.example#", "a@evil.example/"):
            query = f"/apps/authorize/?host={host}&state={hash_secret(new_secret())}&next=/".replace(
                "#", "%23"
            )
            assert (await browser.request("GET", PORTAL_HOST, query)).status == 400


async def test_pages_of_other_origins_cannot_use_the_cookie(stage: Stage, app: int) -> None:
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        host = stage.host("lab")
        await browser.visit(host)
        sibling = f"http://{stage.host('evil')}"
        post = await browser.request(
            "POST", host, "/", headers={"Origin": sibling, "Sec-Fetch-Site": "same-site"}
        )
        fetch = await browser.request(
            "GET", host, "/", headers={"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}
        )
        assert post.status == fetch.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await browser.websocket(host, "/ws", origin=sibling)
        assert refusal.value.status == 403
        own = await browser.request("POST", host, "/", headers={"Origin": f"http://{host}"})
        assert own.status == 200


async def test_the_gateways_own_places_are_never_forwarded(stage: Stage, app: int) -> None:
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        await browser.visit(stage.host("lab"))
        for path in ("/.berth/", "/.berth/other", "/%2Eberth/x"):
            assert (await browser.request("GET", stage.host("lab"), path, headers=NAVIGATION)).status == 404


async def test_a_websocket_passes(stage: Stage, app: int) -> None:
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        await browser.visit(stage.host("lab"))
        async with browser.websocket(stage.host("lab"), "/ws") as socket:
            await socket.send_str("hello")
            assert (await socket.receive()).data == "hello"


def sign_out(stage: Stage) -> None:
    BrowserLogin.objects.all().delete()


def deactivate(stage: Stage) -> None:
    stage.owner.is_active = False
    stage.owner.save(update_fields=["is_active"])


def change_password(stage: Stage) -> None:
    stage.owner.set_password("another quiet harbour")
    stage.owner.save(update_fields=["password"])


def leave_project(stage: Stage) -> None:
    Membership.objects.filter(user=stage.owner).delete()


def close_project(stage: Stage) -> None:
    stage.cluster.project.is_active = False
    stage.cluster.project.save(update_fields=["is_active"])


def close_domain(stage: Stage) -> None:
    stage.owner.domain.is_active = False
    stage.owner.domain.save(update_fields=["is_active"])


@pytest.mark.parametrize(
    "end",
    [sign_out, deactivate, change_password, leave_project, close_project, close_domain, Stage.stop],
)
async def test_what_is_open_is_cut_when_access_ends(stage: Stage, app: int, end) -> None:  # type: ignore[no-untyped-def]
    async with gateway(recheck_s=0.1) as browser:
        await signed_in(browser, stage.owner)
        host = stage.host("lab")
        await browser.visit(host)
        async with asyncio.timeout(10), browser.websocket(host, "/ws") as socket:
            stream = asyncio.create_task(browser.request("GET", host, "/stream"))
            await socket.send_str("x")
            await socket.receive()
            await in_thread(end)(stage)
            assert (await socket.receive()).data == 4403
            with pytest.raises(aiohttp.ClientPayloadError):
                await stream
        if end is not Stage.stop:
            assert (await browser.request("GET", host, "/")).status == 401


async def test_a_program_enters_with_a_token_of_one_app_which_the_app_never_sees(stage: Stage) -> None:
    seen: list[web.Request] = []
    async with serve_app(sample_app(seen)) as port, gateway() as browser:
        await in_thread(stage.declare)({"name": "lab", "title": "Lab", "port": port, "command": ["{token}"]})
        await in_thread(stage.run)()
        answer = await in_thread(token_for)(stage, "lab")
        assert answer.status_code == 201
        bearer = {"Authorization": f"Bearer {answer.json()['token']}"}
        entered = await browser.request("POST", stage.host("lab"), "/x", headers=bearer)
        assert (entered.status, entered.text) == (200, "the app at /x")
        assert seen[-1].headers["Authorization"] == f"token {stage.session.app_token}"
        assert (await browser.request("GET", stage.host(f"p{port}"), "/", headers=bearer)).status == 401
        async with browser.http.ws_connect(
            f"http://127.0.0.1:{browser.port}/ws", headers=bearer | {"Host": stage.host("lab")}
        ) as socket:
            await socket.send_str("hello")
            assert (await socket.receive()).data == "hello"
        assert (await in_thread(token_for)(stage, "absent")).status_code == 404


async def test_a_programs_token_ends_with_what_it_came_from_and_with_its_hour(stage: Stage, app: int) -> None:
    async with gateway() as browser:
        headers = []
        for _ in range(2):
            answer = await in_thread(token_for)(stage, "lab")
            headers.append({"Authorization": f"Bearer {answer.json()['token']}"})
        await in_thread(lambda: AppLogin.objects.order_by("pk")[:1].get().keypair.delete())()
        await in_thread(lambda: AppLogin.objects.update(expires_at="2020-01-01T00:00Z"))()
        for bearer in headers:
            assert (await browser.request("GET", stage.host("lab"), "/", headers=bearer)).status == 401


def token_for(stage: Stage, app: str):  # type: ignore[no-untyped-def]
    client = factories.api_client(stage.owner)
    return client.post(f"/api/v1/sessions/{stage.session.pk}/apps/{app}/token/")


async def test_two_people_do_not_share_a_cookie_jar(stage: Stage, app: int) -> None:
    """A cookie of one app host opens no other."""
    async with gateway() as browser:
        await signed_in(browser, stage.owner)
        await browser.visit(stage.host("lab"))
        elsewhere = stage.host(f"p{app}")
        browser.cookies[elsewhere] = dict(browser.cookies[stage.host("lab")])
        assert (await browser.request("GET", elsewhere, "/")).status == 401


async def test_the_portals_own_cookie_opens_no_app(stage: Stage, app: int) -> None:
    async with gateway() as browser:
        portal_cookie = await in_thread(sign_in)(stage.owner)
        browser.cookies[stage.host("lab")] = {settings.SESSION_COOKIE_NAME: portal_cookie}
        assert (await browser.request("GET", stage.host("lab"), "/")).status == 401
