"""The event stream: recipients, resumption, and end."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient, Client

from accounts.models import KeyPair, User
from accounts.tenancy import service
from common.actors import SYSTEM
from common.messaging.live_updates import STREAM_LENGTH, Audience, push_many_on_commit, push_now, stream_name
from common.messaging.redis import client as redis_client
from portal.api import event_stream, live_updates
from tests import factories
from tests.conftest import People

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]

EVENTS = "/api/v1/events/"


class Stream:
    """What a browser's EventSource would hear."""

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        self._content = content
        self.last_id = ""

    async def frame(self) -> str:
        async with asyncio.timeout(10):
            return (await anext(self._content)).decode()

    async def event(self) -> dict[str, Any]:
        """The next event; remembers its id."""
        while True:
            for line in (await self.frame()).splitlines():
                name, _, value = line.partition(": ")
                if name == "id":
                    self.last_id = value
                if name == "data":
                    return dict(json.loads(value))

    async def until_ready(self) -> None:
        while not self.last_id:
            for line in (await self.frame()).splitlines():
                if line.startswith("id: "):
                    self.last_id = line.removeprefix("id: ")

    async def has_ended(self) -> bool:
        try:
            while True:
                await self.frame()
        except StopAsyncIteration:
            return True


@asynccontextmanager
async def listening(
    user: User | None = None, *, client: AsyncClient | None = None, last_id: str = "", query: str = ""
) -> AsyncIterator[Stream]:
    headers = {"accept": "text/event-stream"}
    if last_id:
        headers["last-event-id"] = last_id
    if user is not None:
        headers["authorization"] = f"Bearer {await sync_to_async(factories.make_token)(user)}"
    response: Any = await (client or AsyncClient()).get(EVENTS + query, headers=headers)
    assert response.status_code == 200, response.content
    content = aiter(response)
    try:
        yield Stream(content)
    finally:
        # As Django's ASGI handler does it when the client has gone.
        await sync_to_async(response.close)()
        await asyncio.sleep(0)


def tell(audience: Audience, number: int = 1) -> None:
    push_now("session-changed", audience=audience, payload={"id": number})


def test_events_refuse_people_who_are_not_signed_in_as_json() -> None:
    response = Client().get(EVENTS, headers={"accept": "text/event-stream"})
    assert response.status_code == 401
    assert response.json()["code"] == "not_authenticated"


async def test_news_reach_the_owner(people: People) -> None:
    async with listening(people.member) as stream:
        await stream.until_ready()
        tell(Audience(owner_id=people.member.pk), 7)
        assert await stream.event() == {"kind": "session-changed", "id": 7}


async def test_news_of_many_things_reach_each_person_as_news_of_their_own_under_one_id(
    people: People,
) -> None:
    told = [(Audience(owner_id=people.member.pk), {"id": 1}), (Audience(owner_id=0), {"id": 2})]
    told.append((Audience(owner_id=people.member.pk), {"id": 3}))
    tell(Audience(owner_id=people.member.pk), 0)
    async with listening(people.member) as stream:
        await stream.until_ready()
        before = stream.last_id
        await sync_to_async(push_many_on_commit)("session-changed", told)
        frame = await stream.frame()
    heard = [
        json.loads(line.removeprefix("data: ")) for line in frame.splitlines() if line.startswith("data: ")
    ]
    assert heard == [{"kind": "session-changed", "id": number} for number in (1, 3)]
    assert frame.count("id: ") == 1  # with the last: whoever is cut off before hears all of it again
    async with listening(people.member, last_id=before) as stream:
        assert (await stream.event())["id"] == 1
    assert redis_client().xlen(stream_name()) == 2


@pytest.mark.parametrize(
    ("listener", "hears"),
    [
        ("superadmin", True),
        ("domain_admin", True),
        ("project_admin", True),
        ("member", False),
        ("outsider", False),
        ("stranger", False),
    ],
)
async def test_news_of_a_session_reach_its_administrators_alone(
    people: People, listener: str, hears: bool
) -> None:
    other = await sync_to_async(factories.make_user)(member_of=people.project)
    everybody = Audience()
    async with listening(getattr(people, listener)) as stream:
        await stream.until_ready()
        tell(Audience(owner_id=other.pk, project_id=people.project.pk, domain_id=people.domain.pk), 1)
        tell(everybody, 2)
        assert (await stream.event())["id"] == (1 if hears else 2)


async def test_a_stream_replays_what_came_after_the_last_event_id(people: People) -> None:
    mine = Audience(owner_id=people.member.pk)
    async with listening(people.member) as stream:
        await stream.until_ready()
        tell(mine, 1)
        await stream.event()
        last_id = stream.last_id
    tell(mine, 2)
    tell(Audience(owner_id=people.outsider.pk), 3)
    tell(mine, 4)
    async with listening(people.member, last_id=last_id) as stream:
        assert [(await stream.event())["id"] for _ in range(2)] == [2, 4]
        tell(mine, 5)
        assert (await stream.event())["id"] == 5


async def test_a_page_hears_what_came_after_it_was_asked_for(people: People) -> None:
    redis_client().xadd(stream_name(), {"kind": "of long ago"}, id="1-1")
    tell(Audience(), 1)
    browser = AsyncClient()
    await browser.aforce_login(people.member, backend="accounts.sign_in.auth_backends.SignInBackend")
    page: Any = await browser.get("/data/")
    after = re.search(r'data-events-after="([^"]+)"', page.content.decode())
    tell(Audience(), 2)
    assert after is not None
    async with listening(client=browser, query=f"?after={after[1]}") as stream:
        told = [(await stream.event())["id"]]
        while told[-1] != 2:  # clocks may differ a little, so the page may also hear what came just before
            told.append((await stream.event())["id"])
    assert told in ([2], [1, 2])


async def test_a_stream_without_last_event_id_begins_with_the_present(people: People) -> None:
    mine = Audience(owner_id=people.member.pk)
    tell(mine, 1)
    async with listening(people.member) as stream:
        await stream.until_ready()
        tell(mine, 2)
        assert (await stream.event())["id"] == 2


async def test_a_stream_says_when_news_were_dropped_meanwhile(people: People) -> None:
    tell(Audience(), 1)
    async with listening(people.member, last_id="1-1") as stream:
        assert (await stream.event())["kind"] == "news-missed"
        assert (await stream.event())["id"] == 1


async def test_a_malformed_last_event_id_is_ignored(people: People) -> None:
    async with listening(people.member, last_id="$ 5") as stream:
        await stream.until_ready()
        tell(Audience(), 1)
        assert (await stream.event())["id"] == 1


async def test_two_streams_share_one_reader_and_it_stops_with_the_last(people: People) -> None:
    async with listening(people.member) as first:
        await first.until_ready()
        reader = live_updates.dispatcher._task
        async with listening(people.member) as second:
            await second.until_ready()
            assert live_updates.dispatcher._task is reader
            tell(Audience(), 1)
            assert await first.event() == await second.event()
        assert live_updates.dispatcher._task is reader
    assert live_updates.dispatcher._task is None


async def test_a_stream_sends_heartbeats(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.05)
    async with listening(people.member) as stream:
        await stream.until_ready()
        assert (await stream.frame()).startswith(":")


async def test_a_deleted_token_ends_its_stream(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "RECHECK_S", 0.05)
    async with listening(people.member) as stream:
        await stream.until_ready()
        await KeyPair.objects.filter(user=people.member).adelete()
        assert await stream.has_ended()


async def test_signing_out_ends_the_stream(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "RECHECK_S", 0.05)
    browser = AsyncClient()
    await browser.aforce_login(people.member, backend="accounts.sign_in.auth_backends.SignInBackend")
    async with listening(client=browser) as stream:
        await stream.until_ready()
        await browser.alogout()
        assert await stream.has_ended()


async def test_a_changed_password_ends_the_stream(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "RECHECK_S", 0.05)
    browser = AsyncClient()
    await browser.aforce_login(people.member, backend="accounts.sign_in.auth_backends.SignInBackend")
    async with listening(client=browser) as stream:
        await stream.until_ready()
        people.member.set_password("another quiet harbour")
        await people.member.asave()
        assert await stream.has_ended()


async def test_a_new_project_admin_hears_of_the_project_without_reconnecting(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_updates, "RECHECK_S", 0.05)
    async with listening(people.member) as stream:
        await stream.until_ready()
        await sync_to_async(service.add_member)(
            actor=SYSTEM,
            project=people.project,
            user=people.member,
            role=factories.ProjectRole.ADMIN,
        )
        heard = asyncio.ensure_future(stream.event())
        async with asyncio.timeout(10):
            while not heard.done():
                tell(Audience(project_id=people.project.pk))
                await asyncio.sleep(0.05)
        assert (await heard)["kind"] == "session-changed"


async def test_a_slow_reader_is_cut_off_and_its_memory_stays_bounded(people: People) -> None:
    async with listening(people.member) as stream:
        await stream.until_ready()
        (subscription,) = live_updates.dispatcher._subscriptions
        for number in range(live_updates.QUEUE_LIMIT + 50):
            tell(Audience(), number)
        async with asyncio.timeout(10):
            while not subscription.is_closed:
                await asyncio.sleep(0.01)
        assert subscription.queue.qsize() == 1
        assert await stream.has_ended()


async def test_a_failed_reader_ends_every_stream(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost_database(logins: object) -> None:
        raise ConnectionError("gone")

    async with listening(people.member) as stream:
        await stream.until_ready()
        monkeypatch.setattr(live_updates, "listeners_by_login", lost_database)
        monkeypatch.setattr(live_updates, "RECHECK_S", 0.05)
        live_updates.dispatcher._task.cancel()
        live_updates.dispatcher._task = None
        live_updates.dispatcher._start()
        assert await stream.has_ended()


def test_the_kept_news_are_bounded() -> None:
    with redis_client().pipeline() as pipeline:
        for _ in range(STREAM_LENGTH + 300):
            pipeline.xadd(stream_name(), {"kind": "x"}, maxlen=STREAM_LENGTH, approximate=True)
        pipeline.execute()
    tell(Audience())
    assert redis_client().xlen(stream_name()) < STREAM_LENGTH + 200
