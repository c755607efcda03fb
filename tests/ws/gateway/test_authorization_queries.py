"""Requests of a page share one authorization query every few seconds."""

import asyncio
import time

import pytest
from asgiref.sync import sync_to_async

from sessions_app.core.app_address import AppEndpoint
from sessions_app.gateway.auth.access_cache import FRESH_S
from sessions_app.gateway.auth.authorizer import DjangoAuthorizer
from sessions_app.gateway.proxy.access_types import AppAccess
from tests.ws.servers import serve_app
from tests.ws.stage import Stage, gateway, sample_app, signed_in

SECONDS_OF_A_QUERY = 5
REQUESTS = 100


class CountingAuthorizer(DjangoAuthorizer):
    asked = 0

    async def admit(self, endpoint: AppEndpoint, secret: str, ip: str) -> AppAccess | None:
        self.asked += 1
        return await super().admit(endpoint, secret, ip)


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


def test_a_question_is_asked_once_in_five_seconds() -> None:
    """And is one query (`tests/db/sessions_app/gateway/test_app_authorization.py`)."""
    assert FRESH_S == SECONDS_OF_A_QUERY


def prepare(stage: Stage, port: int) -> None:
    stage.declare({"name": "lab", "title": "Lab", "port": port, "command": ["lab"]})
    stage.run()
