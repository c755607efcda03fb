"""Answers of engines that must neither lead elsewhere nor fill the memory."""

import asyncio
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import requests

from agents.runtime.docker import async_http, connection
from agents.runtime.docker.async_http import EngineHttp
from agents.runtime.docker.logs import EntrySplitter
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import PlainText, RuntimeFault, RuntimeRefused, RuntimeUnavailable


class Liar(BaseHTTPRequestHandler):
    """An engine that sends its callers elsewhere, or says more than anyone can hear."""

    asked: list[str]
    leads_elsewhere: bool

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/version":
            self.answer(200, b'{"ApiVersion": "1.41"}')
        elif self.path == "/_ping":
            self.answer(200, b"OK")
        elif self.path.endswith("/images/foreign/json"):
            self.answer(200, b'["not", "an", "image"]')
        elif self.leads_elsewhere:
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
        else:
            self.answer(200, b"[" + b" " * 1000 + b"]")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Stream:
    """Answer that arrives in pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.iter_content = lambda _most: iter(pieces)


def test_messages_of_a_stream_are_read_as_they_arrive_and_none_without_end() -> None:
    answer = Stream(b'{"id"', b": 1}\r\n{}\n", b"\n[1]", *[b"x" * 2**16] * 20)
    lines = connection.lines_of(answer)  # type: ignore[arg-type]
    assert [next(lines), next(lines)] == [b'{"id": 1}', b"{}"]
    with pytest.raises(RuntimeRefused):
        next(lines)


def test_log_entry_of_any_size_is_not_collected() -> None:
    with pytest.raises(RuntimeRefused):
        EntrySplitter().feed(b"\x01\0\0\0\xff\xff\xff\xff2026-11-30T00:00:00Z ")


@pytest.fixture(params=[True, False], ids=["elsewhere", "endless"])
def address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for module in (connection, async_http):
        monkeypatch.setattr(module, "ANSWER_BYTES", 500)
    Liar.asked, Liar.leads_elsewhere = [], request.param
    with ThreadingHTTPServer(("127.0.0.1", 0), Liar) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_workers_follow_no_redirect_and_read_no_endless_answer(address: str) -> None:
    with pytest.raises(RuntimeUnavailable):
        DockerRuntime(address, PlainText()).list_containers({})
    assert "/elsewhere" not in Liar.asked


def test_gateway_follows_no_redirect_and_reads_no_endless_answer(address: str) -> None:
    async def call() -> None:
        http = EngineHttp(address, PlainText())
        try:
            with pytest.raises(RuntimeFault):
                await http.call("GET", "/containers/json")
        finally:
            await http.close()

    asyncio.run(call())
    assert "/elsewhere" not in Liar.asked


def test_answer_that_makes_no_sense_is_that_of_no_engine(address: str) -> None:
    with pytest.raises(RuntimeUnavailable, match="like no engine"):
        DockerRuntime(address, PlainText()).inspect_image("foreign")


def test_calls_of_a_kind_that_timed_out_are_made_one_at_a_time_until_one_is_answered() -> None:
    engine = connection.Connection("unix:///none", None)
    engine.note_failure("start_container", requests.Timeout())
    with engine.one_call("start_container"):
        with engine.one_call("list_containers"):
            pass
        with pytest.raises(RuntimeUnavailable, match="is slow"), engine.one_call("start_container"):
            pass
    engine.note_answer("start_container")
    with engine.one_call("start_container"), engine.one_call("start_container"):
        pass
