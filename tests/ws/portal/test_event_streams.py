"""Open event streams hold no database connections."""

import asyncio
from contextlib import AsyncExitStack

import aiohttp
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings

from portal.processes.asgi import portal_application
from tests import factories
from tests.ws.servers import serve_asgi
from tests.ws.stage import Stage

POOL_SIZE = settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"]


@pytest.mark.parametrize("stream", ["events/", "sessions/{session_id}/logs/?follow=1"])
async def test_more_open_streams_than_database_connections_leave_the_portal_answering(
    stage: Stage, stream: str
) -> None:
    token = await sync_to_async(factories.make_token)(stage.owner)
    headers = {"Authorization": f"Bearer {token}", "Host": "localhost:8080"}
    path = stream.format(session_id=stage.session.pk)

    async with (
        serve_asgi(portal_application) as port,
        aiohttp.ClientSession(
            f"http://127.0.0.1:{port}/api/v1/",
            headers=headers,
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_read=None),
        ) as http,
        AsyncExitStack() as streams,
    ):
        for _ in range(POOL_SIZE + 2):
            answer = await streams.enter_async_context(
                http.get(path, timeout=aiohttp.ClientTimeout(sock_connect=5))
            )
            assert answer.status == 200
        async with asyncio.timeout(5), http.get("me/") as answer:
            assert answer.status == 200
