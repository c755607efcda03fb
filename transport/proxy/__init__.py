"""App proxy: streams HTTP/1.1 requests and websockets to an app and back.

`forward_http` and `forward_websocket` forward one ASGI request each; a `Transport` holds what a
process shares between requests. The caller decides who may pass and to which target.
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
from transport.proxy.pool import Transport
from transport.proxy.route import DIRECT, DirectRoute, Route, TlsRelayRoute
from transport.proxy.target import Target, Timeouts
from transport.proxy.websocket import forward_websocket, reject_websocket

__all__ = [
    "DIRECT",
    "DirectRoute",
    "HeaderRules",
    "Headers",
    "RequestRefused",
    "Route",
    "Target",
    "Timeouts",
    "TlsRelayRoute",
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
