"""Hijacked connections: bytes pass both ways, and every end is reported."""

import asyncio
import base64
import json
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agents.runtime.docker import stream as hijacking
from agents.runtime.docker.async_http import PATH_STAT_HEADER, EngineHttp
from agents.runtime.docker.stream import HEAD_BYTES, REFUSAL_BYTES, Stream, connect, hijack
from agents.runtime.port import ContainerGone, RuntimeRefused, RuntimeUnavailable, TlsMaterial

DEADLINE_S = 30
UPGRADED = b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n"
EXEC = "/exec/1/start"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With `engine.pem` and `engine.key`: the engine at 127.0.0.1 vouches for itself."""
    home = tmp_path_factory.mktemp("tls")
    kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1")
    name = ("-subj", "/CN=engine", "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", home / "engine.key", "-out", home / "engine.pem")
    subprocess.run(["openssl", "req", *kind, *name, *files], check=True, capture_output=True)
    return home


@pytest.fixture
def trust(home: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=home / "engine.pem")


@asynccontextmanager
async def tls_engine(home: Path, talk: Callable[[ssl.SSLSocket], None]) -> AsyncIterator[str]:
    """The address of an engine that talks to one client. It blocks in a thread: unlike asyncio's TLS such a socket goes on
    to talk after the other side's goodbye."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(home / "engine.pem", home / "engine.key")

    def serve() -> None:
        client, _ = listener.accept()
        client.settimeout(DEADLINE_S)
        with context.wrap_socket(client, server_side=True) as secured:
            talk(secured)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(DEADLINE_S)
        serving = asyncio.create_task(asyncio.to_thread(serve))
        async with asyncio.timeout(DEADLINE_S):
            yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
            await serving


@asynccontextmanager
async def local_engine(path: Path, answer: bytes, heard: list[bytes] | None = None) -> AsyncIterator[str]:
    """The address of an engine that answers every request with these bytes and hangs up."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if heard is not None:
            heard.append(head)
        writer.write(answer)
        writer.write_eof()
        await reader.read()
        writer.close()

    async with asyncio.timeout(DEADLINE_S), await asyncio.start_unix_server(talk, path / "engine"):
        yield f"unix://{path}/engine"


async def all_of(stream: Stream) -> bytes:
    said = b""
    while data := await stream.read():
        said += data
    return said


def answer(status: str, body: bytes, *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers)
    return "\r\n".join((*lines, "", "")).encode() + body


# Over TLS


async def test_tls_carries_bytes_both_ways(home: Path, trust: ssl.SSLContext) -> None:
    def echo(engine: ssl.SSLSocket) -> None:
        while data := engine.recv(2**16):
            engine.sendall(data.upper())

    async with tls_engine(home, echo) as address:
        stream = await connect(address, trust)
        stream.write(b"")
        stream.write(b"hello")
        assert await stream.read() == b"HELLO"
        await stream.end_output()
        assert await all_of(stream) == b""
        stream.close()


async def test_engine_is_heard_over_tls_after_our_own_goodbye(home: Path, trust: ssl.SSLContext) -> None:
    def answer_after_the_end(engine: ssl.SSLSocket) -> None:
        heard = b""
        while data := engine.recv(2**16):
            heard += data
        engine.sendall(b"heard " + heard)

    async with tls_engine(home, answer_after_the_end) as address:
        stream = await connect(address, trust)
        stream.write(b"all")
        await stream.end_output()
        assert await all_of(stream) == b"heard all"
        stream.close()


async def test_what_had_come_unread_before_our_goodbye_over_tls_is_kept(
    home: Path, trust: ssl.SSLContext
) -> None:
    later = b"x" * 3 * hijacking.READ_BYTES

    def talk_first(engine: ssl.SSLSocket) -> None:
        engine.sendall(b"first" + later)
        assert engine.recv(1) == b""
        engine.sendall(b"last")

    async with tls_engine(home, talk_first) as address:
        stream = await connect(address, trust)
        said = await stream.read()
        await stream.end_output()
        assert said + await all_of(stream) == b"first" + later + b"last"
        stream.close()


async def test_writing_over_tls_after_our_goodbye_does_nothing(home: Path, trust: ssl.SSLContext) -> None:
    heard = []

    def listen(engine: ssl.SSLSocket) -> None:
        while data := engine.recv(2**16):
            heard.append(data)

    async with tls_engine(home, listen) as address:
        stream = await connect(address, trust)
        stream.write(b"before")
        await stream.end_output()
        stream.write(b"after")
        await stream.end_output()
        assert await all_of(stream) == b""
        stream.close()
    assert b"".join(heard) == b"before"


async def test_writing_after_a_close_over_tls_does_nothing(home: Path, trust: ssl.SSLContext) -> None:
    def listen(engine: ssl.SSLSocket) -> None:
        try:
            assert engine.recv(1) == b""
        except OSError:
            return

    async with tls_engine(home, listen) as address:
        stream = await connect(address, trust)
        stream.close()
        stream.write(b"after")
        await stream.end_output()
        assert stream.unwritten_bytes == 0


async def test_engine_that_does_not_read_holds_the_writer_back_over_tls(
    home: Path, trust: ssl.SSLContext
) -> None:
    sent = b"x" * 2**24  # more than a loopback's socket buffers take
    may_read = asyncio.Event()
    loop, length = asyncio.get_running_loop(), 0

    def read_when_told(engine: ssl.SSLSocket) -> None:
        nonlocal length
        asyncio.run_coroutine_threadsafe(may_read.wait(), loop).result(DEADLINE_S)
        while data := engine.recv(2**16):
            length += len(data)

    async with tls_engine(home, read_when_told) as address:
        stream = await connect(address, trust)
        stream.write(sent)
        held_back = stream.unwritten_bytes
        draining = asyncio.create_task(stream.drain())
        await asyncio.sleep(0)
        assert held_back > 0
        assert not draining.done()
        may_read.set()
        await draining
        assert stream.unwritten_bytes < held_back
        await stream.end_output()
        assert await all_of(stream) == b""
        stream.close()
    assert length == len(sent)


async def test_engine_that_hangs_up_without_a_goodbye_is_at_its_end(
    home: Path, trust: ssl.SSLContext
) -> None:
    def hang_up(engine: ssl.SSLSocket) -> None:
        engine.sendall(b"last")
        engine.shutdown(socket.SHUT_WR)

    async with tls_engine(home, hang_up) as address:
        stream = await connect(address, trust)
        assert await all_of(stream) == b"last"
        assert await stream.read() == b""
        stream.close()


async def test_engine_with_an_untrusted_certificate_is_refused(home: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(home / "engine.pem", home / "engine.key")
    async with await asyncio.start_server(refuse, "127.0.0.1", 0, ssl=context) as server:
        address = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(address, ssl.create_default_context())


async def test_engine_that_speaks_no_tls_is_an_error(trust: ssl.SSLContext) -> None:
    async def speak_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(speak_plainly, "127.0.0.1", 0) as server:
        with pytest.raises(ssl.SSLError):
            await connect(f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}", trust)


async def test_connection_is_taken_over_through_tls(home: Path) -> None:
    asked = []

    def upgrade(engine: ssl.SSLSocket) -> None:
        request = b""
        while not request.endswith(b'{"Tty": true}'):
            request += engine.recv(2**16)
        asked.append(request)
        engine.sendall(UPGRADED + b"early")
        engine.sendall(engine.recv(2**16).upper())

    async with tls_engine(home, upgrade) as address:
        files = (home / "engine.pem", home / "engine.pem", home / "engine.key")
        http = EngineHttp(address, TlsMaterial(*map(str, files)))
        stream, said = await http.hijack(EXEC, {"Tty": True})
        while said != b"early":
            said += await stream.read()
        stream.write(b"typed")
        assert await stream.read() == b"TYPED"
        stream.close()
        await http.close()
    assert asked[0].startswith(b"POST /exec/1/start HTTP/1.1\r\n")
    assert b"Upgrade: tcp\r\n" in asked[0]


# Over a local socket


async def test_what_the_engine_says_with_its_head_is_not_lost(tmp_path: Path) -> None:
    async with local_engine(tmp_path, UPGRADED + b"early") as address:
        stream, early = await hijack(address, None, EXEC, b"")
        assert early + await all_of(stream) == b"early"
        await stream.end_output()
        stream.close()
        stream.write(b"after the end")
        await stream.end_output()
        assert stream.unwritten_bytes == 0


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 101 UPGR", b"x" * (HEAD_BYTES + 1)])
async def test_engine_that_breaks_off_or_never_ends_its_head_is_unavailable(
    tmp_path: Path, said: bytes
) -> None:
    async with local_engine(tmp_path, said) as address:
        with pytest.raises(RuntimeUnavailable, match="broke off"):
            await hijack(address, None, EXEC, b"")


@pytest.mark.parametrize(
    "said", [b"SSH-2.0", b"HTTP/1.1 ", b"HTTP/1.1 two hundred", b"HTTP/1.1 502 Bad\r\nContent-Length: many"]
)
async def test_engine_that_speaks_no_http_is_unavailable(tmp_path: Path, said: bytes) -> None:
    async with local_engine(tmp_path, said + b"\r\n\r\n") as address:
        with pytest.raises(RuntimeUnavailable):
            await hijack(address, None, EXEC, b"")


async def test_refusal_to_hand_over_is_told_in_the_engine_s_words(tmp_path: Path) -> None:
    async with local_engine(tmp_path, answer("404 Not Found", b"No such exec instance")) as address:
        with pytest.raises(ContainerGone, match="No such exec instance"):
            await hijack(address, None, EXEC, b"")


async def test_refusal_is_cut_and_one_without_a_length_has_no_words(tmp_path: Path) -> None:
    async with local_engine(tmp_path, answer("400 Bad", b"x" * 3 * REFUSAL_BYTES)) as address:
        with pytest.raises(RuntimeRefused) as refused:
            await hijack(address, None, EXEC, b"")
    assert str(refused.value) == "x" * REFUSAL_BYTES
    async with local_engine(tmp_path, b"HTTP/1.1 400 Bad\r\n\r\n") as address:
        with pytest.raises(RuntimeRefused):
            await hijack(address, None, EXEC, b"")


async def test_engine_that_never_answers_a_takeover_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hijacking, "ANSWER_TIMEOUT_S", 0.05)

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(say_nothing, tmp_path / "deaf"):
        http = EngineHttp(f"unix://{tmp_path}/deaf", None)
        with pytest.raises(RuntimeUnavailable, match=r"deaf does not answer: TimeoutError"):
            await http.hijack(EXEC, {})


async def test_writing_to_a_local_engine_after_our_end_does_nothing(tmp_path: Path) -> None:
    heard = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())
        writer.write(b"last")
        writer.close()

    async with asyncio.timeout(DEADLINE_S), await asyncio.start_unix_server(listen, tmp_path / "engine"):
        stream = await connect(f"unix://{tmp_path}/engine", None)
        stream.write(b"before")
        await stream.end_output()
        stream.write(b"after")
        assert await all_of(stream) == b"last"
        stream.close()
    assert heard == [b"before"]


# HTTP with the engine


def test_engine_over_the_network_needs_certificates() -> None:
    with pytest.raises(RuntimeRefused, match="without certificates"):
        EngineHttp("tcp://127.0.0.1:2376", None)


@pytest.mark.parametrize(("body", "expected"), [(b'{"Id": "1"}', {"Id": "1"}), (b"", None)])
async def test_call_gives_the_decoded_answer(tmp_path: Path, body: bytes, expected: object) -> None:
    heard: list[bytes] = []
    async with local_engine(tmp_path, answer("200 OK", body), heard) as address:
        http = EngineHttp(address, None)
        assert await http.call("GET", "/x", all="1") == expected
        await http.close()
    assert heard[0].startswith(b"GET /x?all=1 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"message": "not so"}', "not so"),
        (b"plain words", "plain words"),
        (b'{"other": 1}', "other"),
        (b"[1]", r"\[1\]"),
        (b"", "HTTP 400"),
    ],
)
async def test_refusal_is_told_however_the_engine_writes_it(tmp_path: Path, body: bytes, words: str) -> None:
    async with local_engine(tmp_path, answer("400 Bad Request", body)) as address:
        http = EngineHttp(address, None)
        with pytest.raises(RuntimeRefused, match=words):
            await http.call("GET", "/x")
        await http.close()


async def test_head_tells_what_is_at_a_path(tmp_path: Path) -> None:
    told = base64.b64encode(json.dumps({"name": "a", "size": 3}).encode()).decode()
    async with local_engine(tmp_path, answer("200 OK", b"", f"{PATH_STAT_HEADER}: {told}")) as address:
        http = EngineHttp(address, None)
        assert await http.head("/x", path="/a") == {"name": "a", "size": 3}
        await http.close()


async def test_download_that_breaks_off_is_unavailable_after_what_came(tmp_path: Path) -> None:
    whole = answer("200 OK", b"x" * 100)
    async with local_engine(tmp_path, whole[:-50]) as address:
        http = EngineHttp(address, None)
        async with http.download("/x") as chunks:
            assert await anext(chunks) == b"x" * 50
            with pytest.raises(RuntimeUnavailable):
                await anext(chunks)
        await http.close()


async def test_upload_sends_all_chunks_but_no_empty_one_that_would_end_it(tmp_path: Path) -> None:
    heard = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        heard.append(await reader.readuntil(b"0\r\n\r\n"))
        writer.write(answer("200 OK", b""))
        writer.close()

    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b"one", b"", b"two"):
            yield chunk

    async with await asyncio.start_unix_server(take, tmp_path / "engine"):
        http = EngineHttp(f"unix://{tmp_path}/engine", None)
        await http.upload("/x", chunks())
        await http.close()
    assert heard == [b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"]


async def test_closing_what_was_never_used_is_no_error(tmp_path: Path) -> None:
    await EngineHttp(f"unix://{tmp_path}/engine", None).close()
