"""The HTTP/1.1 side of the server: what reads requests off a browser's connection, and bounds all that one may cost.

uvicorn listens, starts and stops; `HttpProtocol` is what it makes for each connection. An application is called as
ASGI says. A `Front` sees each request first and may answer it in the same turn of the event loop, or take a
websocket's connection over as it is.
"""

from transport.server.connection import HttpProtocol, protocol_class
from transport.server.connection_registry import Lobby
from transport.server.exchange import Exchange
from transport.server.forwarded import TrustedProxies
from transport.server.limits import Limits
from transport.server.pre_app_handler import Front

__all__ = ["Exchange", "Front", "HttpProtocol", "Limits", "Lobby", "TrustedProxies", "protocol_class"]
