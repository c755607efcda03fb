"""ASGI types, and the scope of a request."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

from transport.server.head_parser import Fields, RequestHead

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]


def http_scope(method: str, version: str, head: RequestHead, headers: Fields) -> Scope:
    """Return the scope of a head. The connection adds client, server and scheme."""
    path = head.path.decode("ascii")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": version,
        "method": method,
        "path": unquote(path) if "%" in path else path,
        "raw_path": head.path,
        "query_string": head.query,
        "root_path": "",
        "headers": headers,
        "extensions": {},
    }
