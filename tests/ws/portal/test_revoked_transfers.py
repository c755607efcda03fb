"""A download or WebDAV transfer under way ends when the right to the folder does."""

from pathlib import Path

import aiohttp
import pytest
from asgiref.sync import sync_to_async

from portal.processes.asgi import portal_application
from tests import factories
from tests.factories_folders import make_folder, make_share, make_storage_host
from tests.ws.servers import serve_asgi
from tests.ws.stage import Stage
from vfolders import access_watch
from vfolders.selectors import mount_source
from vfolders.sharing.service import revoke_share

in_thread = sync_to_async
SIZE = 256 * 2**20  # more than sockets hold


@pytest.mark.parametrize("address", ["/api/v1/folders/{id}/files/big", "/dav/@{owner}/data/big"])
async def test_a_revoked_share_cuts_its_downloads(
    stage: Stage, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_watch, "RECHECK_S", 0.0)
    await in_thread(make_storage_host)(tmp_path)
    owner = await in_thread(factories.make_user)(domain=stage.owner.domain)
    folder = await in_thread(make_folder)(owner, name="data")
    share = await in_thread(make_share)(folder, stage.owner)
    with (Path(await in_thread(mount_source)(folder)) / "big").open("wb") as big:
        big.truncate(SIZE)
    token = await in_thread(factories.make_token)(stage.owner)
    headers = {"Host": "localhost", "Authorization": f"Bearer {token}"}
    async with serve_asgi(portal_application) as port, aiohttp.ClientSession(headers=headers) as http:
        url = f"http://127.0.0.1:{port}{address.format(id=folder.pk, owner=owner.email)}"
        async with http.get(url) as answer:
            assert answer.status == 200
            await answer.content.readexactly(2**20)
            await in_thread(revoke_share)(
                actor=factories.actor_for(owner), folder_id=folder.pk, share_id=share.pk
            )
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.content.read()
        async with http.get(url) as answer:
            assert answer.status == 404
