"""Bodies of which nothing comes cost little, and end."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from common.rest import request_body
from portal.processes.asgi import portal_application
from tests import factories
from tests.conftest import People
from tests.factories_folders import make_folder, make_storage_host
from tests.waiting import wait_until
from transport.server.asgi import Message

in_thread = sync_to_async
pytestmark = pytest.mark.django_db(transaction=True)
ADDRESSES = {
    "PUT": "/api/v1/folders/{id}/files/a",
    "POST": "/api/v1/folders/{id}/bundles/",
    "DAV": "/dav/data/a",
}


class Client:
    """Sends chunked requests for files of one folder, whose bodies never come."""

    def __init__(self, token: str, folder_id: object) -> None:
        self._token, self._folder_id = token, folder_id
        self.looked = 0

    async def send(self, kind: str) -> list[Message]:
        """Return the messages of the response, once it is whole."""
        path, answer = ADDRESSES[kind].format(id=self._folder_id), list[Message]()

        async def receive() -> Message:
            self.looked += 1
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            answer.append(message)

        headers = [
            (b"host", b"localhost"),
            (b"authorization", f"Bearer {self._token}".encode()),
            (b"transfer-encoding", b"chunked"),
        ]
        scope = {
            "type": "http",
            "method": kind.replace("DAV", "PUT"),
            "path": path,
            "query_string": b"",
            "client": ("127.0.0.1", 1),
            "headers": headers,
        }
        await portal_application(scope, receive, send)
        return answer

    @asynccontextmanager
    async def sending(self, *kinds: str) -> AsyncIterator[None]:
        """Send these requests; the block runs when each waits for its body."""
        before = self.looked
        tasks = [asyncio.create_task(self.send(kind)) for kind in kinds]
        try:
            await in_thread(wait_until)(lambda: self.looked >= before + len(kinds))
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def client(people: People, tmp_path: Path) -> Client:
    make_storage_host(tmp_path)
    return Client(factories.make_token(people.member), make_folder(people.member, name="data").pk)


async def test_a_body_that_does_not_come_holds_no_connection_to_the_database(client: Client) -> None:
    def held() -> int:
        stats = connection.pool.get_stats()  # type: ignore[attr-defined]
        return int(stats["pool_size"] - stats["pool_available"])

    before = await in_thread(held)()
    async with client.sending(*ADDRESSES):
        await in_thread(wait_until)(lambda: held() <= before)


async def test_a_silent_client_is_sent_away(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "SILENCE_S", request_body.PAUSE_S)
    assert await refusal(client, "PUT") == (408, "request_timeout")
    assert await refusal(client, "POST") == (408, "request_timeout")


async def test_a_user_has_a_number_of_open_bodies(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body.open_bodies, "limit", 2)
    async with client.sending("PUT", "POST"):
        assert await refusal(client, "PUT") == (429, "too_many_requests")


async def refusal(client: Client, kind: str) -> tuple[int, str]:
    start, content = await client.send(kind)
    return start["status"], json.loads(content["body"])["code"]
