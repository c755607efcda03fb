"""A client of WebDAV for tests."""

from base64 import b64encode
from typing import Any

from django.test import Client

LOCK = '<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>'


class Dav:
    """A client with the token of a user. Paths are below /dav/, encoded."""

    def __init__(self, token: str) -> None:
        basic = b64encode(f"anybody:{token}".encode()).decode()
        self._client = Client(headers={"authorization": f"Basic {basic}"})

    def __call__(self, method: str, path: str, body: bytes | str = b"", **headers: str) -> Any:
        named: dict[str, Any] = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
        kind = "application/octet-stream"
        return self._client.generic(method, f"/dav/{path}", body, content_type=kind, **named)
