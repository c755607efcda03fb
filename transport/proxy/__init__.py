"""Transport of an app proxy: HTTP/1.1 and websockets, streamed both ways, and nothing about users or sessions.

`forward_http` and `forward_websocket` carry one ASGI request each; a `Transport` holds what a process shares
between them. Who may pass, and where to, is decided by the caller.
"""

from transport.proxy.errors import (
    RequestRefused,
    UpstreamBroken,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from transport.proxy.headers import HeaderRules, Headers, request_head
from transport.proxy.http import forward_http
from transport.proxy.target import Target, Timeouts
from transport.proxy.transport import Transport
from transport.proxy.websocket import forward_websocket, reject_websocket

__all__ = [
    "HeaderRules",
    "Headers",
    "RequestRefused",
    "Target",
    "Timeouts",
    "Transport",
    "UpstreamBroken",
    "UpstreamError",
    "UpstreamTimeout",
    "UpstreamUnreachable",
    "forward_http",
    "forward_websocket",
    "reject_websocket",
    "request_head",
]
