"""HTTP through the proxy, against real servers on the loopback."""

import asyncio
import hashlib
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from tests.ws.servers import exchange, proxied, serve_app, serve_bytes, wait_for
from transport.proxy import Timeouts, Transport

MIB = 2**20


def client() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar())


def lowered(request: web.Request) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}


def url(port: int, path: str) -> URL:
    return URL(f"http://127.0.0.1:{port}{path}", encoded=True)


async def test_paths_queries_and_headers_arrive_as_sent() -> None:
    routes = web.RouteTableDef()

    @routes.get("/{tail:.*}")
    async def show(request: web.Request) -> web.Response:
        return web.json_response({"path": request.raw_path, "headers": lowered(request)})

    async with serve_app(routes) as app, proxied(app) as port, client() as browser:
        headers = {
            "Host": "lab-s1.apps.localhost",
            "Cookie": "__Host-berth-app=secret; a=1",
            "Connection": "keep-alive, x-hop",
            "X-Hop": "1",
            "X-Forwarded-For": "8.8.8.8",
        }
        async with browser.get(url(port, "/a%2Fb%20c/%E2%9C%93//x?q=%2F&r"), headers=headers) as answer:
            seen = await answer.json()
    assert seen["path"] == "/a%2Fb%20c/%E2%9C%93//x?q=%2F&r"
    assert seen["headers"]["host"] == "lab-s1.apps.localhost"
    assert seen["headers"]["cookie"] == "a=1"
    assert seen["headers"]["x-forwarded-for"] == "127.0.0.1"
    assert not {"x-hop", "connection"} & set(seen["headers"])


async def test_redirects_and_cookies_come_back_as_set_but_for_domain() -> None:
    routes = web.RouteTableDef()

    @routes.get("/")
    async def redirect(_request: web.Request) -> web.Response:
        response = web.Response(status=302, headers={"Location": "/x%2Fy?z=%20"})
        response.headers.add("Set-Cookie", "a=1; Domain=apps.localhost; Path=/")
        response.headers.add("Set-Cookie", "b=2; Path=/")
        response.headers.add("Set-Cookie", "__Host-berth-app=evil; Path=/; Secure")
        return response

    async with serve_app(routes) as app, proxied(app) as port, client() as browser:
        async with browser.get(url(port, "/"), allow_redirects=False) as answer:
            assert answer.status == 302
            assert answer.headers["Location"] == "/x%2Fy?z=%20"
            assert answer.headers.getall("Set-Cookie") == ["a=1; Path=/", "b=2; Path=/"]


async def test_events_are_passed_on_as_they_happen() -> None:
    routes = web.RouteTableDef()
    may_continue = asyncio.Event()

    @routes.get("/events")
    async def events(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        await may_continue.wait()
        await response.write(b"data: 2\n\n")
        return response

    async with serve_app(routes) as app, proxied(app) as port, client() as browser:
        async with asyncio.timeout(10), browser.get(url(port, "/events")) as answer:
            assert await answer.content.readany() == b"data: 1\n\n"
            may_continue.set()
            assert await answer.content.read() == b"data: 2\n\n"


async def test_head_has_a_length_and_no_body() -> None:
    routes = web.RouteTableDef()

    @routes.get("/")
    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="hello")

    async with serve_app(routes) as app, proxied(app) as port, client() as browser:
        for _ in range(2):
            async with browser.head(url(port, "/")) as answer:
                assert answer.status == 200
                assert answer.headers["Content-Length"] == "5"
                assert await answer.read() == b""
        async with browser.get(url(port, "/")) as answer:
            assert await answer.text() == "hello"


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_without_body_keep_the_connection(status: int) -> None:
    async def app(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            while await reader.readline() != b"\r\n":
                pass
            writer.write(b"HTTP/1.1 %d X\r\nETag: x\r\nContent-Length: 77\r\n\r\n" % status)
        writer.close()

    async with serve_bytes(app) as port, proxied(port) as proxy, client() as browser:
        for _ in range(3):
            async with browser.get(url(proxy, "/")) as answer:
                assert answer.status == status
                assert answer.headers["ETag"] == "x"


async def test_interim_answers_are_passed_over() -> None:
    async def app(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with serve_bytes(app) as port, proxied(port) as proxy, client() as browser:
        async with browser.get(url(proxy, "/")) as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
            assert "Link" not in answer.headers


async def test_an_answer_that_ends_with_its_connection_is_whole() -> None:
    async def app(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nall of it")
        writer.close()

    async with serve_bytes(app) as port, proxied(port) as proxy, client() as browser:
        async with browser.get(url(proxy, "/")) as answer:
            assert await answer.text() == "all of it"


async def test_an_answer_that_is_cut_short_looks_cut_short() -> None:
    async def app(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await writer.drain()
        writer.close()

    async with serve_bytes(app) as port, proxied(port) as proxy, client() as browser:
        with pytest.raises(aiohttp.ClientPayloadError):
            async with browser.get(url(proxy, "/")) as answer:
                await answer.read()


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_large_bodies_pass_unchanged_both_ways(is_chunked: bool) -> None:
    routes = web.RouteTableDef()
    block = bytes(range(256)) * 4096
    count = 24

    @routes.put("/")
    async def echo(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"X-Length": request.headers.get("Content-Length", "none")})
        await response.prepare(request)
        async for part in request.content.iter_any():
            await response.write(part)
        return response

    async def parts():  # type: ignore[no-untyped-def]
        for _ in range(count):
            yield block

    headers = {} if is_chunked else {"Content-Length": str(len(block) * count)}
    async with serve_app(routes) as app, proxied(app) as port, client() as browser:
        async with browser.put(url(port, "/"), data=parts(), headers=headers) as answer:
            digest = hashlib.sha256()
            async for part in answer.content.iter_any():
                digest.update(part)
    assert digest.digest() == hashlib.sha256(block * count).digest()
    assert answer.headers["X-Length"] == ("none" if is_chunked else str(len(block) * count))


async def test_expect_is_answered_here() -> None:
    routes = web.RouteTableDef()

    @routes.post("/")
    async def read(request: web.Request) -> web.Response:
        return web.Response(text=f"{request.headers.get('Expect')} {len(await request.read())}")

    async with serve_app(routes) as app, proxied(app) as port, client() as browser:
        async with browser.post(url(port, "/"), data=b"x" * 100, expect100=True) as answer:
            assert await answer.text() == "None 100"


async def test_a_request_that_could_be_read_in_two_ways_is_refused() -> None:
    routes = web.RouteTableDef()
    async with serve_app(routes) as app, proxied(app) as port:
        smuggled = (
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        )
        assert (await exchange(port, smuggled)).startswith(b"HTTP/1.1 400 ")


async def test_the_client_leaving_ends_the_request_upstream() -> None:
    routes = web.RouteTableDef()
    ended: list[str] = []

    @routes.get("/stream")
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"x")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("stream")
        return response

    @routes.post("/upload")
    async def upload(request: web.Request) -> web.Response:
        try:
            await request.content.readexactly(MIB)
        finally:
            ended.append("upload")
        return web.Response()

    async with serve_app(routes) as app, proxied(app) as port, client() as browser:
        async with browser.get(url(port, "/stream")) as answer:
            assert await answer.content.readany() == b"x"
            answer.close()
        await wait_for(lambda: ended == ["stream"])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\nstart")
        await writer.drain()
        writer.close()
        await wait_for(lambda: ended == ["stream", "upload"])


async def test_connections_are_kept_and_reused() -> None:
    routes = web.RouteTableDef()
    peers: list[object] = []

    @routes.get("/")
    async def page(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.append(request.transport.get_extra_info("peername"))
        return web.Response(text="ok")

    async with serve_app(routes) as app, proxied(app) as port, client() as browser:
        for _ in range(5):
            async with browser.get(url(port, "/")) as answer:
                await answer.read()
    assert len(set(peers)) == 1


class ForgetfulApp:
    """Answers one request on each connection, promises to keep it, and closes it at the next request."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(2):
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests.append(head.split(b" ")[0])
            if number == 0:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                await writer.drain()
        writer.close()


async def test_a_kept_connection_that_died_is_replaced_once() -> None:
    forgetful = ForgetfulApp()
    async with serve_bytes(forgetful) as port, proxied(port) as proxy, client() as browser:
        for _ in range(3):
            async with browser.get(url(proxy, "/")) as answer:
                assert (answer.status, await answer.text()) == (200, "ok")
    assert forgetful.requests == [b"GET"] * 5


async def test_a_request_that_must_not_be_repeated_never_meets_a_kept_connection() -> None:
    forgetful = ForgetfulApp()
    async with serve_bytes(forgetful) as port, proxied(port) as proxy, client() as browser:
        for _ in range(3):
            async with browser.post(url(proxy, "/")) as answer:
                assert answer.status == 200
    assert forgetful.requests == [b"POST"] * 3


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 999 Strange\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * MIB,
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10_000,
        b"",
    ],
    ids=["ssh", "upgrade", "status", "lengths", "endless head", "endless hints", "nothing"],
)
async def test_what_is_not_an_answer_becomes_502(answer: bytes) -> None:
    async def app(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with serve_bytes(app) as port, proxied(port) as proxy, client() as browser:
        async with browser.get(url(proxy, "/")) as response:
            assert (response.status, await response.text()) == (502, "UpstreamBroken")


async def test_silence_and_a_closed_port_have_their_own_errors() -> None:
    async def app(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    transport = Transport(Timeouts(response_head_s=0.05))
    async with serve_bytes(app) as port, proxied(port, transport=transport) as proxy, client() as browser:
        async with browser.get(url(proxy, "/")) as response:
            assert await response.text() == "UpstreamTimeout"
    async with proxied(port) as proxy, client() as browser, browser.get(url(proxy, "/")) as response:
        assert await response.text() == "UpstreamUnreachable"


async def test_an_upload_may_take_longer_than_an_app_may_be_silent() -> None:
    routes = web.RouteTableDef()

    @routes.post("/")
    async def count(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    async def body() -> AsyncIterator[bytes]:
        for _ in range(12):
            await asyncio.sleep(0.1)  # what is tested is time
            yield b"x"

    transport = Transport(Timeouts(response_head_s=1.0))
    async with serve_app(routes) as port, proxied(port, transport=transport) as proxy, client() as browser:
        async with browser.post(url(proxy, "/"), data=body()) as response:
            assert (response.status, await response.text()) == (200, "12")


async def test_an_endless_trailer_ends_the_answer() -> None:
    async def app(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Trailer: ")
        while not writer.is_closing():
            writer.write(b"a" * 65536)
            await writer.drain()

    async with serve_bytes(app) as port, proxied(port) as proxy, client() as browser:
        with pytest.raises(aiohttp.ClientPayloadError):
            async with browser.get(url(proxy, "/")) as answer:
                await answer.read()
