"""What may stand before the application."""

from typing import Protocol

from transport.server.asgi import Scope
from transport.server.exchange import Exchange


class Front(Protocol):
    """Both are called in the middle of reading, and return at once."""

    def take(self, exchange: Exchange) -> bool:
        """Whether this request, which has no body, is answered from here. False leaves it to the application."""

    def owns(self, scope: Scope) -> bool:
        """Whether the application wants websockets of this address whole: it then makes a tunnel of the exchange, which
        it finds as `scope["extensions"]["berth.exchange"]`."""
