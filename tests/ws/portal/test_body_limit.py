"""Large bodies are accepted from signed-in users only; others do not reach the disk."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings

from accounts.models import User
from portal.processes.asgi import portal_application
from portal.processes.body_limit import SMALL_BODY_BYTES
from tests import factories
from tests.ws.servers import serve_asgi
from tests.ws.stage import Stage, sign_in

ENDLESS = SMALL_BODY_BYTES * 20


async def pieces(sent: list[int]) -> AsyncIterator[bytes]:
    while len(sent) * 2**16 < ENDLESS:
        sent.append(2**16)
        yield bytes(2**16)


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": f"Bearer bk{'a' * 16}.{'b' * 43}"}, {"Cookie": "berth_session=x"}]
)
async def test_stranger_is_stopped_before_the_body_is_taken_in(stage: Stage, headers: dict[str, str]) -> None:
    sent: list[int] = []
    async with serve_asgi(portal_application) as port, aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{port}/api/v1/sessions/"
        try:
            async with http.post(url, data=pieces(sent), headers={"Host": "localhost", **headers}) as answer:
                assert answer.status == 413
        except aiohttp.ClientConnectionError:
            pass  # the server may close before the client has read the refusal
    assert sum(sent) < ENDLESS


@pytest.mark.parametrize("how", ["token", "token of a closed network", "cookie"])
async def test_signed_in_user_may_send_large_bodies(stage: Stage, how: str) -> None:
    if how == "token of a closed network":
        await User.objects.filter(pk=stage.owner.pk).aupdate(allowed_networks=["192.0.2.0/24"])
    if how != "cookie":
        token = await sync_to_async(factories.make_token)(stage.owner)
        headers = {"Authorization": f"Bearer {token}"}
    else:
        cookie = await sync_to_async(sign_in)(stage.owner)
        headers = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={cookie}"}
    async with serve_asgi(portal_application) as port, aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{port}/account/logout/"
        body = bytes(SMALL_BODY_BYTES * 2)
        async with http.put(url, data=body, headers={"Host": "localhost", **headers}) as answer:
            assert answer.status in (403, 405)


async def test_a_body_in_chunks_is_read_like_one_whose_length_is_told(stage: Stage) -> None:
    async def in_chunks() -> AsyncIterator[bytes]:
        yield b'{"name": "from'
        yield b' a program"}'

    token = await sync_to_async(factories.make_token)(stage.owner)
    headers = {"Host": "localhost", "Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    async with serve_asgi(portal_application) as port, aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{port}/api/v1/keypairs/"
        async with http.post(url, data=in_chunks(), headers=headers) as answer:
            assert answer.status == 201
            assert (await answer.json())["name"] == "from a program"
