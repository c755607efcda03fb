"""Interface of a handler that sees requests before the application."""

from typing import Protocol

from transport.server.asgi import Scope
from transport.server.exchange import Exchange


class Front(Protocol):
    """Pre-app handler. Both methods are called while input is
    parsed, and must return immediately.
    """

    def take(self, exchange: Exchange) -> bool:
        """Return True if the handler answers this request, which has no body; False
        leaves it to the application.
        """

    def owns(self, scope: Scope) -> bool:
        """Return True if the application takes over websockets of this address as tunnels; it finds
        the exchange as `scope["extensions"]["berth.exchange"]`.
        """
