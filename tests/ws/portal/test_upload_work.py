"""An upload into a session counts as activity if its sender may write there."""

from collections.abc import Iterable

import pytest
from asgiref.sync import sync_to_async

from common.token_scopes import TokenScope
from portal.processes import upload_work
from portal.processes.asgi import portal_application
from sessions_app.models import ComputeSession, SessionIdle
from tests import factories
from tests.factories_sessions import Place, make_place
from tests.ws.stage import sign_in
from transport.server.asgi import Message

in_thread = sync_to_async
pytestmark = pytest.mark.django_db(transaction=True)


def headers_of(place: Place, who: str) -> list[tuple[bytes, bytes]]:
    if who == "nobody":
        return []
    if who == "the owner's browser":
        return [(b"cookie", f"berth_session={sign_in(place.owner)}".encode())]
    person = factories.make_user() if who == "another person" else place.owner
    scopes = [TokenScope.READ] if who == "a token that only reads" else None
    return [(b"authorization", f"Bearer {factories.make_token(person, scopes=scopes)}".encode())]


async def send_body(session: ComputeSession, headers: Iterable[tuple[bytes, bytes]]) -> list[bool]:
    """Whether work was noted when the portal had taken the first and the second part of a body, which is not whole then."""
    row = SessionIdle.objects.filter(session=session, interacted_at__isnull=False)
    noted: list[bool] = []
    taken: list[Message] = []

    async def receive() -> Message:
        if taken:
            noted.append(await in_thread(row.exists)())
            await in_thread(row.update)(interacted_at=None)
        if len(taken) == 2:
            return {"type": "http.disconnect"}
        taken.append({"type": "http.request", "body": b"a part", "more_body": True})
        return taken[-1]

    async def send(message: Message) -> None:
        raise AssertionError(message)

    path = f"/api/v1/sessions/{session.pk}/files/archive/"
    scope = {
        "type": "http",
        "method": "PUT",
        "path": path,
        "query_string": b"path=/home/work",
        "client": ("::1", 1),
    }
    await portal_application({**scope, "headers": [(b"host", b"localhost"), *headers]}, receive, send)
    return noted


@pytest.mark.parametrize(
    ("who", "counts"),
    [
        ("the owner", True),
        ("the owner's browser", True),
        ("a token that only reads", False),
        ("another person", False),
        ("nobody", False),
    ],
)
async def test_each_part_of_a_permitted_upload_is_activity(
    monkeypatch: pytest.MonkeyPatch, who: str, counts: bool
) -> None:
    monkeypatch.setattr(upload_work, "NOTE_EVERY_S", 0)
    place = await in_thread(make_place)()
    session = await in_thread(place.run)()
    await in_thread(SessionIdle.objects.create)(session=session)
    headers = await in_thread(headers_of)(place, who)

    assert await send_body(session, headers) == [counts, counts]


async def test_an_upload_counts_while_it_arrives_only_if_that_takes_long() -> None:
    place = await in_thread(make_place)()
    session = await in_thread(place.run)()
    await in_thread(SessionIdle.objects.create)(session=session)
    headers = await in_thread(headers_of)(place, "the owner")

    assert await send_body(session, headers) == [False, False]
