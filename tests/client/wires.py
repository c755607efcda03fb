"""Portals that are a function: what the library sends, and what it makes of an answer."""

import json
from collections.abc import Callable
from typing import Any

import httpx

from berth import Client

Answer = httpx.Response | Exception
TOKEN = "bkaaaaaaaaaaaaaaaa." + "s" * 43


class Wire(httpx.BaseTransport):
    """Gives the prepared answers one after the other, the last one for ever; keeps what was asked."""

    def __init__(self, *answers: Answer | Callable[[httpx.Request], httpx.Response]) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)

    @property
    def paths(self) -> list[str]:
        return [f"{one.method} {one.url.raw_path.decode()}" for one in self.requests]

    def body(self, number: int = -1) -> Any:
        return json.loads(self.requests[number].content)


def client_on(*answers: Answer | Callable[[httpx.Request], httpx.Response]) -> tuple[Client, Wire]:
    wire = Wire(*answers)
    return Client("https://berth.test", TOKEN, wire=wire), wire


def refusal(status: int, code: str = "code", message: str = "No.", **more: Any) -> httpx.Response:
    body = {"code": code, "message": message, "hint": "", "fields": {}, **more}
    return httpx.Response(status, json=body)


def page(*rows: dict[str, Any], following: str | None = None) -> httpx.Response:
    return httpx.Response(
        200, json={"count": len(rows), "next": following, "previous": None, "results": rows}
    )


def session_row(**changes: Any) -> dict[str, Any]:
    """A session with what the library cannot do without."""
    row = {
        "id": "11111111-2222-3333-4444-555555555555",
        "name": "train",
        "type": "batch",
        "status": "RUNNING",
    }
    return row | changes


class Pieces(httpx.SyncByteStream):
    """A body that comes in pieces and may break: an exception among them is raised in its place."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self._pieces = pieces

    def __iter__(self) -> Any:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece
