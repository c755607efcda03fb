"""How often the database is asked whether a request may enter an app: once in seconds for all requests of a page."""

import asyncio
import time

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.tokens import hash_secret, new_secret
from sessions_app.gateway.access import DjangoAuthorizer, find_admission
from sessions_app.gateway.admissions import FRESH_S
from sessions_app.gateway.ports import Admission
from sessions_app.models import AppLogin
from sessions_app.tickets import AppHost, Door
from tests.ws.servers import serve_app
from tests.ws.stage import Stage, gateway, sample_app, sign_in, signed_in

MOST_OF_A_QUESTION = 6
REQUESTS = 100


class CountingAuthorizer(DjangoAuthorizer):
    asked = 0

    async def admit(self, door: Door, secret: str, ip: str) -> Admission | None:
        self.asked += 1
        return await super().admit(door, secret, ip)


async def test_requests_of_a_page_share_one_question(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    authorizer = CountingAuthorizer()
    monkeypatch.setattr("tests.ws.stage.DjangoAuthorizer", lambda: authorizer)
    async with serve_app(sample_app()) as port, gateway() as browser:
        await sync_to_async(prepare)(stage, port)
        await signed_in(browser, stage.owner)
        host = stage.host("lab")
        await browser.visit(host)
        authorizer.asked, began_at = 0, time.monotonic()
        for _ in range(REQUESTS // 10):
            answers = await asyncio.gather(*(browser.request("GET", host, f"/{n}") for n in range(10)))
            assert {answer.status for answer in answers} == {200}
        assert authorizer.asked <= (time.monotonic() - began_at) / FRESH_S + 1


def test_a_question_takes_few_queries(stage: Stage) -> None:
    prepare(stage, 8000)
    secret = new_secret()
    AppLogin.objects.create(
        secret_hash=hash_secret(secret), user=stage.owner, login_key=sign_in(stage.owner), session=stage.session, app="lab"
    )  # fmt: skip
    door = AppHost("lab", stage.session.host_label)
    with CaptureQueriesContext(connection) as queries:
        assert find_admission(door, secret, "127.0.0.1") is not None
    assert len(queries) <= MOST_OF_A_QUESTION, [query["sql"][:90] for query in queries.captured_queries]


def prepare(stage: Stage, port: int) -> None:
    stage.declare({"name": "lab", "title": "Lab", "port": port, "command": ["lab"]})
    stage.run()
