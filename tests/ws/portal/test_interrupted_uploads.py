"""An interrupted upload keeps the old file and leaves no partial one."""

import asyncio
from pathlib import Path

import aiohttp
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings

from portal.processes.asgi import portal_application
from tests import factories
from tests.factories_folders import make_folder, make_storage_host
from tests.waiting import wait_until
from tests.ws.servers import serve_asgi
from tests.ws.stage import Stage
from vfolders.selectors import mount_source

in_thread = sync_to_async
BODY = bytes(5 * 2**20)


@pytest.mark.parametrize("head", [f"Content-Length: {len(BODY)}", "Transfer-Encoding: chunked"])
async def test_an_upload_that_is_cut_loses_nothing(stage: Stage, tmp_path: Path, head: str) -> None:
    await in_thread(make_storage_host)(tmp_path)
    folder = await in_thread(make_folder)(stage.owner, name="data")
    token = await in_thread(factories.make_token)(stage.owner)
    directory = Path(await in_thread(mount_source)(folder))
    path = f"/api/v1/folders/{folder.pk}/files/"
    headers = {"Host": "localhost", "Authorization": f"Bearer {token}"}
    async with serve_asgi(portal_application) as port, aiohttp.ClientSession(headers=headers) as http:
        url = f"http://127.0.0.1:{port}{path}"
        async with http.put(url + "model", data=b"old") as answer:
            assert answer.status == 200
        for name in ("model", "deep/er/new"):
            await send_half(port, path + name, token, head)
        async with http.put(url + "after", data=b"x") as answer:
            assert answer.status == 200

        def is_clean() -> bool:
            return not list(Path(settings.FILE_UPLOAD_TEMP_DIR).iterdir())

        await in_thread(wait_until)(is_clean, deadline_s=30)
    assert files_in(directory) == {"after": b"x", "model": b"old"}


def files_in(directory: Path) -> dict[str, bytes]:
    return {found.name: found.read_bytes() for found in directory.rglob("*") if found.is_file()}


async def send_half(port: int, path: str, token: str, head: str) -> None:
    """Begin a PUT, send a part of its body, and be gone."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    size = f"{len(BODY):x}\r\n" if "chunked" in head else ""
    lines = (f"PUT {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}", head, "", size)
    writer.write("\r\n".join(lines).encode() + BODY[: len(BODY) // 2])
    await writer.drain()
    writer.transport.abort()
