"""HTTP/1.1 server protocol: parses the requests of a client connection, and enforces limits on it.

uvicorn listens, starts and stops; it creates one `HttpProtocol` per connection. Applications are
called by ASGI. A `PreAppHandler` sees each request first and may answer it in the same turn of the event
loop, or take over a websocket's connection.
"""

from transport.server.connection import HttpProtocol, protocol_class
from transport.server.exchange import Exchange, PreAppHandler
from transport.server.forwarded import TrustedProxies
from transport.server.limits import Limits

__all__ = ["Exchange", "HttpProtocol", "Limits", "PreAppHandler", "TrustedProxies", "protocol_class"]
