"""Files of a session over REST: no byte after access has ended, and limits of transfers."""

import asyncio
from collections.abc import AsyncGenerator

import aiohttp
import pytest
from asgiref.sync import sync_to_async

from accounts.models import KeyPair
from agents.runtime.port_files import Place
from agents.runtime.simulated.files import SimulatedFiles
from sessions_app.container_io import files
from sessions_app.models import SessionIdle
from tests import factories
from tests.factories_sessions import make_place
from tests.ws.stage import gateway

in_thread = sync_to_async
PATH = {"path": "/home/work/.profile"}
pytestmark = pytest.mark.django_db(transaction=True)


async def test_no_byte_leaves_after_access_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "RECHECK_S", 0.0)
    ends = asyncio.Event()

    async def slowly(self: SimulatedFiles, place: Place) -> AsyncGenerator[bytes, None]:
        yield b"umas"
        await ends.wait()
        yield b"k 022\n"

    monkeypatch.setattr(SimulatedFiles, "read", slowly)
    place = await in_thread(make_place)()
    session = await in_thread(place.run)()
    token = await in_thread(factories.make_token)(place.owner)
    async with gateway() as browser:
        url = f"http://127.0.0.1:{browser.port}/api/v1/sessions/{session.pk}/files/content/"
        headers = {"Authorization": f"Bearer {token}"}
        async with browser.http.get(url, params=PATH, headers=headers) as answer:
            assert await answer.content.readexactly(4) == b"umas"
            await in_thread(KeyPair.objects.all().delete)()
            ends.set()
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.content.read()


async def test_a_transfer_is_work_from_its_begin_and_as_long_as_it_flows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "RECHECK_S", 0.0)
    goes_on = asyncio.Event()

    async def slowly(self: SimulatedFiles, place: Place) -> AsyncGenerator[bytes, None]:
        yield b"umas"
        await goes_on.wait()
        yield b"k 022\n"

    monkeypatch.setattr(SimulatedFiles, "read", slowly)
    place = await in_thread(make_place)()
    session = await in_thread(place.run)()
    idle = await in_thread(SessionIdle.objects.create)(session=session)
    token = await in_thread(factories.make_token)(place.owner)
    seen = []
    async with gateway() as browser:
        url = f"http://127.0.0.1:{browser.port}/api/v1/sessions/{session.pk}/files/content/"
        headers = {"Authorization": f"Bearer {token}"}
        async with browser.http.get(url, params=PATH, headers=headers) as answer:
            await answer.content.readexactly(4)
            await in_thread(idle.refresh_from_db)()
            seen.append(idle.interacted_at)
            goes_on.set()
            await answer.content.read()
            await in_thread(idle.refresh_from_db)()
            seen.append(idle.interacted_at)
    assert None not in seen
    assert seen[0] < seen[1]


async def test_transfers_of_one_person_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.open_transfers, "limit", 0)
    place = await in_thread(make_place)()
    session = await in_thread(place.run)()
    token = await in_thread(factories.make_token)(place.owner)
    async with gateway() as browser:
        url = f"http://127.0.0.1:{browser.port}/api/v1/sessions/{session.pk}/files/content/"
        headers = {"Authorization": f"Bearer {token}"}
        async with browser.http.put(url, params=PATH, headers=headers, data=b"x") as answer:
            assert (answer.status, (await answer.json())["code"]) == (429, "too_many_requests")
