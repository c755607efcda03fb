"""A part of a resumable upload that is under way meets a lost right and a full disk."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from asgiref.sync import sync_to_async

from portal.processes.asgi import portal_application
from tests import factories
from tests.factories_folders import make_folder, make_share
from tests.waiting import wait_until
from tests.ws.portal.test_streamed_uploads import PIECE, Upload, client, folder, names_in, staged
from tests.ws.servers import serve_asgi
from tests.ws.stage import Stage
from vfolders import access_watch
from vfolders.core.permissions import Right
from vfolders.models import StorageHost, VFolder
from vfolders.models import Upload as UploadRow
from vfolders.selectors import mount_source, storage_of
from vfolders.services import ensure_default_host
from vfolders.sharing.service import revoke_share

__all__ = ("folder",)
in_thread = sync_to_async
TUS = {"Tus-Resumable": "1.0.0"}
MIB = 2**20
DISK_BYTES = 32 * MIB


@pytest.fixture
async def folder_on_small_disk(stage: Stage, tmp_path: Path) -> AsyncIterator[VFolder]:
    """Yield a folder in an image of its own, which is smaller than the portal knows."""
    config = {"root": str(tmp_path / "images"), "folder_gib": "1"}
    await StorageHost.objects.acreate(name="images", kind="loop", config=config, is_default=True)
    await in_thread(ensure_default_host)()
    folder = await in_thread(make_folder)(stage.owner, name="data")
    storage = await in_thread(storage_of)(folder)
    try:
        await in_thread(storage.delete_folder)(folder.pk)
        await in_thread(storage.create_folder)(folder.pk, quota_bytes=DISK_BYTES)
        yield folder
    finally:
        await in_thread(storage.delete_folder)(folder.pk)


async def create(http: aiohttp.ClientSession, port: int, folder: VFolder, size_bytes: int) -> str:
    """Return the address of a new upload of the file “model”."""
    told = {
        **TUS,
        "Upload-Length": str(size_bytes),
        "Upload-Metadata": f"path {base64.b64encode(b'model').decode()}",
    }
    url = f"http://127.0.0.1:{port}/api/v1/folders/{folder.pk}/uploads/"
    async with http.post(url, headers=told) as answer:
        assert answer.status == 201
        return f"http://127.0.0.1:{port}{urlsplit(answer.headers['Location']).path}"


async def append(http: aiohttp.ClientSession, url: str, offset: int, body: Upload | bytes) -> tuple[int, str]:
    """Return the status and the code of the error."""
    told = {**TUS, "Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
    async with http.patch(url, data=body, headers=told) as answer:
        return answer.status, "" if answer.status == 204 else (await answer.json())["code"]


async def offset_of(http: aiohttp.ClientSession, url: str) -> int:
    async with http.head(url, headers=TUS) as answer:
        return int(answer.headers["Upload-Offset"])


async def test_a_share_revoked_in_the_middle_of_a_part_ends_its_upload(
    stage: Stage, folder: VFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_watch, "RECHECK_S", 0.0)
    friend = await in_thread(factories.make_user)(domain=stage.owner.domain)
    share = await in_thread(make_share)(folder, friend, right=Right.WRITE)
    token = await in_thread(factories.make_token)(friend)
    directory = Path(await in_thread(mount_source)(folder))
    upload = Upload()
    async with serve_asgi(portal_application) as port, client(token) as http:
        url = await create(http, port, folder, 100 * len(PIECE))
        sending = asyncio.create_task(append(http, url, 0, upload))
        await upload.send(PIECE)
        await in_thread(wait_until)(
            lambda: [each.stat().st_size for each in staged(directory)] == [len(PIECE)]
        )
        assert not sending.done()
        await in_thread(revoke_share)(
            actor=factories.actor_for(stage.owner), folder_id=folder.pk, share_id=share.pk
        )
        await upload.send(PIECE)
        await upload.send(PIECE)
        assert await asyncio.wait_for(sending, 20) == (404, "not_found")
    assert staged(directory) == []
    assert not await UploadRow.objects.aexists()
    await folder.arefresh_from_db()
    assert folder.size_bytes == 0


async def test_a_part_that_fills_the_disk_is_kept_and_the_upload_goes_on(
    stage: Stage, folder_on_small_disk: VFolder
) -> None:
    folder = folder_on_small_disk
    token = await in_thread(factories.make_token)(stage.owner)
    directory = Path(await in_thread(mount_source)(folder))
    content = b"".join(bytes([number]) * MIB for number in range(2 * DISK_BYTES // MIB))
    upload = Upload()
    async with serve_asgi(portal_application) as port, client(token) as http:
        url = await create(http, port, folder, len(content))
        sending = asyncio.create_task(append(http, url, 0, upload))
        for begin in range(0, len(content), MIB):
            await upload.send(content[begin : begin + MIB])
        assert await asyncio.wait_for(sending, 30) == (422, "storage_full")
        offset = await offset_of(http, url)
        assert 0 < offset < DISK_BYTES
        assert "model" not in names_in(directory)

        storage = await in_thread(storage_of)(folder)
        await in_thread(storage.set_quota)(folder.pk, 4 * DISK_BYTES)
        assert await append(http, url, offset, content[offset:]) == (204, "")
    assert (directory / "model").read_bytes() == content
    await folder.arefresh_from_db()
    assert folder.size_bytes == len(content)
