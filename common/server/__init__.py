"""The HTTP/1.1 side of the server: what reads requests off a browser's connection, and bounds all that one may cost.

uvicorn listens, starts and stops; `HttpProtocol` is what it makes for each connection. An application is called as
ASGI says. A `Front` sees each request first and may answer it in the same turn of the event loop, or take a
websocket's connection over as it is.
"""

from common.server.exchange import Exchange
from common.server.forwarded import TrustedProxies
from common.server.front import Front
from common.server.http import HttpProtocol, protocol_class
from common.server.limits import Limits
from common.server.lobby import Lobby

__all__ = ["Exchange", "Front", "HttpProtocol", "Limits", "Lobby", "TrustedProxies", "protocol_class"]
