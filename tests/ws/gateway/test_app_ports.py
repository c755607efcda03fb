"""Apps at ports of a plain address: access and refusals."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web
from asgiref.sync import sync_to_async
from django.conf import settings

from accounts.models import User
from portal.processes.asgi import portal_application
from sessions_app.gateway.auth.authorizer import DjangoAuthorizer
from sessions_app.gateway.proxy import app_ports
from sessions_app.gateway.proxy.app_proxy import AppProxy
from sessions_app.gateway.proxy.open_connections import OpenConnections
from tests import factories
from tests.ws.servers import serve_app, serve_asgi
from tests.ws.stage import Answer, Browser, Stage, sample_app, sign_in

in_thread = sync_to_async
ADDRESS = "192.0.2.9"
# As browsers send it to addresses that they do not trust: without Sec-Fetch-*.
PAGE = {"Accept": "text/html"}


@dataclass
class PlainBrowser(Browser):
    """Opens the portal by its address; ports of doors lead to their own listeners."""

    door_ports: tuple[int, ...] = ()
    seen: list[str] = field(default_factory=list)

    @property
    def portal(self) -> str:
        return f"{ADDRESS}:{self.portal_port}"

    @property
    def portal_port(self) -> int:
        return urlsplit(settings.BERTH_URL).port or 80

    async def request(self, method: str, host: str, path: str, **more: Any) -> Answer:
        given = int(host.rpartition(":")[2])
        own, self.port = self.port, given if given in self.door_ports else self.port
        try:
            return await super().request(method, host, path, **more)
        finally:
            self.port = own

    async def go(self, host: str, path: str = "/") -> Answer:
        """Open a page and follow redirects and pages that lead on."""
        for _ in range(8):
            self.seen.append(host)
            answer = await self.request("GET", host, path, headers=PAGE)
            onward = re.search(r'content="0; url=([^"]+)"', answer.text)
            location = answer.headers.get("Location") or (onward and onward[1].replace("&amp;", "&"))
            if not location:
                break
            place = urlsplit(location)
            host = place.netloc or host
            path = place.path + (f"?{place.query}" if place.query else "")
        return answer

    async def sign_in(self, user: User) -> None:
        cookie = await in_thread(sign_in)(user)
        self.cookies[self.portal] = {settings.SESSION_COOKIE_NAME: cookie}


@asynccontextmanager
async def plain_gateway() -> AsyncIterator[PlainBrowser]:
    authorizer = DjangoAuthorizer()
    proxy = AppProxy(
        apps_domain=settings.BERTH_APPS_DOMAIN,
        fallback=portal_application,
        authorizer=authorizer,
        connections=OpenConnections(authorizer.still_present),
    )
    async with (
        serve_asgi(proxy, pre_app_handler=proxy) as port,
        serve_asgi(proxy, pre_app_handler=proxy) as first,
        serve_asgi(proxy, pre_app_handler=proxy) as second,
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http,
    ):
        app_ports.set_listening_ports((first, second))
        try:
            yield PlainBrowser(port, http, door_ports=(first, second))
        finally:
            app_ports.set_listening_ports(())
    await proxy.close()


@pytest.fixture
async def seen(stage: Stage, settings: Any) -> AsyncIterator[list[web.Request]]:
    """What the app `lab` of the running session was asked."""
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, ADDRESS]
    requests: list[web.Request] = []
    async with serve_app(sample_app(requests)) as port:
        await in_thread(stage.declare)({"name": "lab", "title": "Lab", "port": port, "command": []})
        await in_thread(stage.run)()
        yield requests


def link(stage: Stage) -> str:
    return f"/apps/{stage.session.pk}/lab/"


async def opened(browser: PlainBrowser, stage: Stage) -> str:
    """The host and port at which the owner has opened the app."""
    await browser.sign_in(stage.owner)
    answer = await browser.go(browser.portal, link(stage))
    assert (answer.status, answer.text) == (200, "the app at /")
    return browser.seen[-1]


async def test_a_person_gets_from_the_link_to_the_app(stage: Stage, seen: list[web.Request]) -> None:
    async with plain_gateway() as browser:
        place = await opened(browser, stage)
        port = int(place.rpartition(":")[2])
        assert port == browser.door_ports[0]
        assert set(browser.cookies[place]) == {f"berth-app-{port}", f"berth-state-{port}"}
        assert (await browser.request("GET", place, "/x", headers=PAGE)).text == "the app at /x"
        assert not any("Cookie" in request.headers for request in seen)


async def test_what_an_app_answers_there_is_kept_in_no_cache(stage: Stage, seen: list[web.Request]) -> None:
    async with plain_gateway() as browser:
        place = await opened(browser, stage)
        answer = await browser.request("GET", place, "/", headers=PAGE)
        assert answer.headers["Cache-Control"] == "no-store"


async def test_only_the_owner_is_let_in(stage: Stage, seen: list[web.Request]) -> None:
    async with plain_gateway() as browser:
        place = await opened(browser, stage)
        browser.cookies.clear()
        await browser.sign_in(await in_thread(factories.make_user)())
        assert (await browser.go(browser.portal, link(stage))).status == 404
        assert (await browser.go(place)).status == 404
        browser.cookies.clear()
        assert 'name="password"' in (await browser.go(place)).text
        assert (await browser.request("GET", place, "/api")).status == 401


@pytest.mark.parametrize("name", ["rebound.example", "localhost", "127.0.0.1", ADDRESS + ":1"])
async def test_a_port_answers_to_no_other_name(stage: Stage, seen: list[web.Request], name: str) -> None:
    async with plain_gateway() as browser:
        place = await opened(browser, stage)
        port = int(place.rpartition(":")[2])
        headers = PAGE | {"Host": name if ":" in name else f"{name}:{port}"}
        if name == "127.0.0.1":
            headers["Host"] = "127.0.0.1"
        answer = await browser.request("GET", place, "/secret", headers=headers)
        assert answer.status == 404
        assert not any(request.path == "/secret" for request in seen)


async def test_a_port_that_is_lent_to_nobody_leads_nowhere(stage: Stage, seen: list[web.Request]) -> None:
    async with plain_gateway() as browser:
        await browser.sign_in(stage.owner)
        assert (await browser.go(f"{ADDRESS}:{browser.door_ports[1]}")).status == 404


async def test_an_administrator_forbids_it(stage: Stage, seen: list[web.Request], settings: Any) -> None:
    async with plain_gateway() as browser:
        place = await opened(browser, stage)
        settings.BERTH_APPS_BY_ADDRESS = "forbidden"
        assert (await browser.go(browser.portal, link(stage))).status == 403
        assert (await browser.go(place)).status == 404
        page = await browser.go(browser.portal, f"/sessions/{stage.session.pk}/")
        assert "Apps cannot open under this address." in page.text


async def test_the_page_of_the_session_says_what_it_weakens(stage: Stage, seen: list[web.Request]) -> None:
    async with plain_gateway() as browser:
        await browser.sign_in(stage.owner)
        page = await browser.go(browser.portal, f"/sessions/{stage.session.pk}/")
        assert "apps are kept apart less well" in page.text
        assert f'href="{link(stage)}"' in page.text


async def test_cookies_that_somebody_put_beside_ours_do_not_lock_out(
    stage: Stage, seen: list[web.Request]
) -> None:
    async with plain_gateway() as browser:
        place = await opened(browser, stage)
        name = f"berth-app-{place.rpartition(':')[2]}"
        right = browser.cookies[place][name]
        tossed = f"{name}={'A' * 43}; {name}=junk; {name}={right}; {name}={'B' * 43}"
        answer = await browser.request("GET", place, "/", headers=PAGE | {"Cookie": tossed})
        assert (answer.status, answer.text) == (200, "the app at /")


async def test_other_ports_of_the_address_may_link_and_nothing_else(
    stage: Stage, seen: list[web.Request]
) -> None:
    async with plain_gateway() as browser:
        place = await opened(browser, stage)
        other = f"http://{ADDRESS}:{browser.door_ports[1]}"
        for headers in ({"Origin": other}, {"Origin": "null"}, {"Referer": f"{other}/"}):
            assert (await browser.request("GET", place, "/", headers=headers)).status == 403
        assert (await browser.request("POST", place, "/", headers={"Origin": other})).status == 403
        linked = await browser.request("GET", place, "/", headers=PAGE | {"Referer": f"{other}/"})
        assert linked.status == 200


async def test_pages_of_the_gateway_lead_back_by_the_same_address(
    stage: Stage, seen: list[web.Request]
) -> None:
    async with plain_gateway() as browser:
        place = await opened(browser, stage)
        await in_thread(stage.stop)()
        async with asyncio.timeout(30):
            while (page := await browser.request("GET", place, "/", headers=PAGE)).status != 410:
                await asyncio.sleep(0.1)
        assert f'href="http://{browser.portal}/sessions/{stage.session.pk}/"' in page.text
