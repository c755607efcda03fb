"""Malicious or truncated answers of apps."""

import asyncio
import socket
import struct

import pytest

from tests.ws.servers import exchange, proxied, serve_bytes

ASK = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
ASK_FOR_OTHER = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close, upgrade\r\nUpgrade: x\r\n\r\n"
FIRST = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"


@pytest.mark.parametrize("second", [FIRST, SWITCH, b"HTTP/1.1 404 No\r\nX-Evil: 1\r\n\r\n"])
@pytest.mark.parametrize("ask", [ASK, ASK_FOR_OTHER], ids=["plain", "upgrade"])
async def test_a_second_answer_changes_nothing_of_the_first(ask: bytes, second: bytes) -> None:
    async def app(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(FIRST + second)

    async with serve_bytes(app) as port, proxied(port) as proxy:
        answer = await exchange(proxy, ask)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert answer.endswith(b"\r\n\r\nfirst")
    assert b"evil" not in answer.lower()


async def test_unrequested_protocol_switch_is_refused() -> None:
    async def app(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(SWITCH)

    async with serve_bytes(app) as port, proxied(port) as proxy:
        assert (await exchange(proxy, ASK_FOR_OTHER)).startswith(b"HTTP/1.1 502 ")


async def test_an_answer_that_ends_with_a_reset_is_not_whole() -> None:
    async def app(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await writer.drain()
        await is_heard.wait()
        reset(writer)

    is_heard = asyncio.Event()
    async with serve_bytes(app) as port, proxied(port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        async with asyncio.timeout(30):
            begun = await reader.readuntil(b"half\r\n")
            is_heard.set()
            rest = await reader.read()
        writer.close()
    assert b"chunked" in begun
    assert b"0\r\n\r\n" not in rest


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with a RST, as the kernel does for a program that dies with unread input."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
