"""Malformed requests side by side on this event loop each get their own answer."""

import asyncio

from tests.ws.plain_app import gullible_app, statuses
from tests.ws.server.test_malformed_requests import TABLE, said
from tests.ws.servers import proxied
from transport.server import Limits

AT_ONCE = 8


async def test_odd_requests_side_by_side_have_their_own_answers() -> None:
    places = asyncio.Semaphore(AT_ONCE)

    async def heard(port: int, request: bytes) -> list[int]:
        async with places:
            return statuses(await asyncio.to_thread(said, port, request))

    with gullible_app() as app:
        async with proxied(app.port, limits=Limits(linger_s=2)) as port:
            answers = await asyncio.gather(
                *(
                    heard(port, request.replace(b"/a HTTP/", b"/a%d HTTP/" % index))
                    for index, (request, _, _) in enumerate(TABLE.values())
                )
            )
        targets = list(app.targets)
    assert dict(zip(TABLE, answers, strict=True)) == {name: row[1] for name, row in TABLE.items()}
    assert b"/hidden" not in targets
    counts = {name: targets.count(b"/a%d" % index) for index, name in enumerate(TABLE)}
    clear = {name: row[2] for name, row in TABLE.items() if row[2] is not None}
    assert {name: counts[name] for name in clear} == clear
