"""Bodies of files reach the storage host as they arrive, and a lost right ends them."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings

from accounts.models import KeyPair
from portal.processes.asgi import portal_application
from tests import factories
from tests.factories_folders import make_folder, make_storage_host
from tests.waiting import wait_until
from tests.ws.servers import serve_asgi
from tests.ws.stage import Stage
from vfolders.core.paths import UPLOADS_DIRECTORY
from vfolders.models import VFolder
from vfolders.selectors import mount_source

in_thread = sync_to_async
PIECE = b"x" * 2**20


class Upload:
    """A PUT whose body is sent piece by piece, until `end`."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, piece: bytes) -> None:
        await self._pieces.put(piece)

    async def end(self) -> None:
        await self._pieces.put(b"")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await self._pieces.get():
            yield piece


@pytest.fixture
async def folder(stage: Stage, tmp_path: Path) -> VFolder:
    await in_thread(make_storage_host)(tmp_path)
    return await in_thread(make_folder)(stage.owner, name="data")


async def test_a_body_is_stored_once_and_read_only_when_it_is_whole(stage: Stage, folder: VFolder) -> None:
    token = await in_thread(factories.make_token)(stage.owner)
    directory = Path(await in_thread(mount_source)(folder))
    upload = Upload()
    async with serve_asgi(portal_application) as port, client(token) as http:
        url = f"http://127.0.0.1:{port}/api/v1/folders/{folder.pk}/files/model"
        sending = asyncio.create_task(put(http, url, upload))
        await upload.send(PIECE)
        await in_thread(wait_until)(
            lambda: [each.stat().st_size for each in staged(directory)] == [len(PIECE)]
        )

        assert names_in(Path(settings.FILE_UPLOAD_TEMP_DIR)) == []
        assert names_in(directory) == [UPLOADS_DIRECTORY]
        async with http.get(url.removesuffix("model")) as answer:
            assert (await answer.json())["entries"] == []
        async with http.get(
            url.replace("model", f"{UPLOADS_DIRECTORY}/{staged(directory)[0].name}")
        ) as answer:
            assert answer.status == 400
        await upload.end()
        status, body = await sending
    assert (status, body["size_bytes"]) == (200, len(PIECE))
    assert names_in(directory) == ["model"]


async def test_a_revoked_token_ends_its_upload_within_seconds(stage: Stage, folder: VFolder) -> None:
    token = await in_thread(factories.make_token)(stage.owner)
    directory = Path(await in_thread(mount_source)(folder))
    upload = Upload()
    async with serve_asgi(portal_application) as port, client(token) as http:
        url = f"http://127.0.0.1:{port}/api/v1/folders/{folder.pk}/files/model"
        sending = asyncio.create_task(put(http, url, upload))
        await upload.send(PIECE)
        await in_thread(wait_until)(lambda: staged(directory))
        await KeyPair.objects.filter(user=stage.owner).aupdate(is_active=False)
        began = time.monotonic()
        while not sending.done() and time.monotonic() - began < 20:
            await upload.send(b"y")
            await asyncio.sleep(0.05)
        status, body = await sending
    assert (status, body["code"]) == (403, "permission_denied")
    assert names_in(directory) == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": f"Bearer bk{'a' * 16}.{'b' * 43}"}, 401),
        ({}, 401),
        ({"Content-Type": "application/json"}, 401),
    ],
)
async def test_a_stranger_is_refused_before_the_body(
    stage: Stage, folder: VFolder, headers: dict[str, str], status: int
) -> None:
    async with serve_asgi(portal_application) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = [
            f"PUT /api/v1/folders/{folder.pk}/files/a HTTP/1.1",
            "Host: localhost",
            "Content-Length: 1000000000",
        ]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        first = await asyncio.wait_for(reader.readline(), 20)
        writer.transport.abort()
    assert first.split()[1] == str(status).encode()


def names_in(directory: Path) -> list[str]:
    return [each.name for each in directory.iterdir()]


def staged(directory: Path) -> list[Path]:
    aside = directory / UPLOADS_DIRECTORY
    return list(aside.iterdir()) if aside.is_dir() else []


def client(token: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(headers={"Host": "localhost", "Authorization": f"Bearer {token}"})


async def put(http: aiohttp.ClientSession, url: str, upload: Upload) -> tuple[int, dict[str, Any]]:
    async with http.put(url, data=upload) as answer:
        return answer.status, await answer.json()
