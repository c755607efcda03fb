"""The gateway's cached access and open connections, with and without a database."""

import asyncio
import uuid

import pytest

from accounts.logins.service import Login
from sessions_app.core.app_address import AppEndpoint, AppHost
from sessions_app.gateway.auth import access_cache
from sessions_app.gateway.auth.access_cache import AccessCache
from sessions_app.gateway.proxy import open_connections
from sessions_app.gateway.proxy.access_types import AccessUnknown, AppAccess, AppState, Presence
from sessions_app.gateway.proxy.open_connections import (
    LIMITS,
    ConnectionCut,
    ConnectionKind,
    OpenConnections,
    TooManyConnections,
)

IP = "192.0.2.7"
HOST = AppHost("lab", "abcdefghijklm234")
SOMEBODY = Presence(Login(1, "login"), uuid.UUID(int=1), "open_app")
ADMISSION = AppAccess(SOMEBODY, AppState.OPEN, "s", "Lab")


class CountingAuthorizer:
    """Lets everybody in, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def admit(self, endpoint: AppEndpoint, secret: str, ip: str) -> AppAccess | None:
        self.asked += 1
        await asyncio.sleep(0)
        return ADMISSION

    async def redeem(self, endpoint: AppEndpoint, code: str, states: tuple[str, ...]) -> str | None:
        return None

    async def still_present(self, presences: frozenset[Presence]) -> frozenset[Presence]:
        return presences

    async def start_app(self, session_id: uuid.UUID, app: str) -> str:
        return ""


class SilentAuthorizer(CountingAuthorizer):
    """Its database has stopped to answer."""

    async def admit(self, endpoint: AppEndpoint, secret: str, ip: str) -> AppAccess | None:
        raise AccessUnknown

    async def still_present(self, presences: frozenset[Presence]) -> frozenset[Presence]:
        raise AccessUnknown


def admissions_of(authorizer: CountingAuthorizer, *, recheck_s: float = 60.0) -> AccessCache:
    return AccessCache(authorizer, OpenConnections(authorizer.still_present, recheck_s=recheck_s))


async def test_one_that_cannot_be_cut_keeps_no_other_open() -> None:
    carried, ended = OpenConnections(CountingAuthorizer().still_present), list[str]()
    carried.watch(SOMEBODY, lambda: ended.append("first"))
    carried.watch(SOMEBODY, lambda: ended.index("what was never there"))
    carried.watch(SOMEBODY, lambda: ended.append("last"))
    carried.cut(SOMEBODY)
    assert ended == ["first", "last"]


async def test_failed_check_is_repeated() -> None:
    """Whatever went wrong: nobody else would cut what may not stay."""
    looks, ended = iter([ValueError("a bug"), frozenset[Presence]()]), asyncio.Event()

    async def still_present(_presences: frozenset[Presence]) -> frozenset[Presence]:
        found = next(looks)
        if isinstance(found, Exception):
            raise found
        return found

    OpenConnections(still_present, recheck_s=0.01).watch(SOMEBODY, ended.set)
    async with asyncio.timeout(10):
        await ended.wait()


async def test_requests_of_one_moment_ask_once() -> None:
    authorizer = CountingAuthorizer()
    known = admissions_of(authorizer)
    found = await asyncio.gather(*(known.find(HOST, "cookie", IP) for _ in range(50)))
    assert found == [ADMISSION] * 50
    assert (await known.find(HOST, "cookie", IP), authorizer.asked) == (ADMISSION, 1)


async def test_what_is_forgotten_or_old_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    authorizer = CountingAuthorizer()
    known = admissions_of(authorizer)
    await known.find(HOST, "cookie", IP)
    known.forget(HOST, "cookie", IP)
    await known.find(HOST, "cookie", IP)
    assert authorizer.asked == 2
    monkeypatch.setattr(access_cache, "FRESH_S", 0.0)
    await known.find(HOST, "cookie", IP)
    assert authorizer.asked == 3


async def test_what_is_known_ends_with_the_presence() -> None:
    """Before its seconds are over, so that nothing is opened by it that nobody looks at again."""

    class Leaving(CountingAuthorizer):
        async def still_present(self, presences: frozenset[Presence]) -> frozenset[Presence]:
            return frozenset()

    known = admissions_of(Leaving(), recheck_s=0.01)
    await known.find(HOST, "cookie", IP)
    async with asyncio.timeout(30):
        while known.known(HOST, "cookie", IP) is not None:
            await asyncio.sleep(0.01)


async def test_what_is_known_counts_from_the_moment_of_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(CountingAuthorizer):
        async def admit(self, endpoint: AppEndpoint, secret: str, ip: str) -> AppAccess | None:
            await asyncio.sleep(0.05)
            return await super().admit(endpoint, secret, ip)

    monkeypatch.setattr(access_cache, "FRESH_S", 0.04)
    known = admissions_of(Slow())
    assert await known.find(HOST, "cookie", IP) == ADMISSION
    assert known.known(HOST, "cookie", IP) is None


async def test_nothing_is_followed_that_is_known_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = OpenConnections(CountingAuthorizer().still_present)
    known = AccessCache(CountingAuthorizer(), opened)
    await known.find(HOST, "cookie", IP)
    assert opened._cuts
    known.forget(HOST, "cookie", IP)
    assert not opened._cuts
    monkeypatch.setattr(access_cache, "_SIZE_LIMIT", 1)
    for cookie in ("a", "b"):
        await known.find(HOST, cookie, IP)
    assert len(opened._cuts[SOMEBODY]) == 1


async def test_other_cookies_and_other_hosts_are_asked_for_themselves() -> None:
    authorizer = CountingAuthorizer()
    known = admissions_of(authorizer)
    for host, cookie in ((HOST, "a"), (HOST, "b"), (AppHost("x", HOST.session_label), "a")):
        await known.find(host, cookie, IP)
    assert authorizer.asked == 3


async def test_without_database_what_was_known_holds_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    known = admissions_of(CountingAuthorizer())
    await known.find(HOST, "cookie", IP)
    known._authorizer = SilentAuthorizer()
    monkeypatch.setattr(access_cache, "FRESH_S", 0.0)
    assert await known.find(HOST, "cookie", IP) == ADMISSION
    with pytest.raises(AccessUnknown):
        await known.find(HOST, "never seen", IP)
    monkeypatch.setattr(access_cache, "UNKNOWN_LIMIT_S", 0.0)
    with pytest.raises(AccessUnknown):
        await known.find(HOST, "cookie", IP)


async def stay(opened: OpenConnections, presence: Presence = SOMEBODY) -> None:
    async with opened.track(presence, ConnectionKind.WEBSOCKET):
        await asyncio.Event().wait()


async def test_without_database_everything_is_cut_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = OpenConnections(SilentAuthorizer().still_present, recheck_s=0.01)
    monkeypatch.setattr(open_connections, "UNKNOWN_LIMIT_S", 0.05)
    with pytest.raises(ConnectionCut):
        async with asyncio.timeout(5):
            await stay(opened)


async def test_only_connections_without_access_are_cut() -> None:
    other = Presence(Login(2, "login"), SOMEBODY.session_id, "open_app")

    async def only_other(presences: frozenset[Presence]) -> frozenset[Presence]:
        return presences & {other}

    opened = OpenConnections(only_other, recheck_s=0.01)
    staying = asyncio.create_task(stay(opened, other))
    with pytest.raises(ConnectionCut):
        async with asyncio.timeout(5):
            await stay(opened)
    assert not staying.done()
    assert opened.count(SOMEBODY.session_id, ConnectionKind.WEBSOCKET) == 1
    staying.cancel()


async def test_a_session_has_a_bounded_number_of_each_kind() -> None:
    opened = OpenConnections(CountingAuthorizer().still_present)
    tasks = [asyncio.create_task(stay(opened)) for _ in range(LIMITS[ConnectionKind.WEBSOCKET])]
    await asyncio.sleep(0)
    with pytest.raises(TooManyConnections):
        await stay(opened)
    async with opened.track(SOMEBODY, ConnectionKind.REQUEST):
        pass
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert opened.count(SOMEBODY.session_id, ConnectionKind.WEBSOCKET) == 0


async def test_an_error_of_the_carried_request_is_passed_on() -> None:
    opened = OpenConnections(CountingAuthorizer().still_present)
    with pytest.raises(TimeoutError):
        async with opened.track(SOMEBODY, ConnectionKind.REQUEST):
            raise TimeoutError
