"""Fast path for a request without body over a pooled connection: in callbacks, without task."""

from collections.abc import Callable

from transport.proxy.connection import Connection
from transport.proxy.errors import UpstreamBroken, UpstreamError, UpstreamTimeout
from transport.proxy.headers import HeaderRules, response_headers
from transport.proxy.pool import Transport
from transport.server.exchange import Exchange
from transport.server.types import Watcher

_LARGEST_STATUS = 599

OnEnd = Callable[[UpstreamError | None], None]


class Relay(Watcher):
    """Forwards one exchange over one connection. Calls `on_end` once: with None when the client has
    its response, whole or cut short, or has left; with the error if nothing was sent, so that the
    caller can answer.
    """

    __slots__ = (
        "_connection",
        "_exchange",
        "_is_late",
        "_is_over",
        "_on_end",
        "_rules",
        "_timer",
        "_transport",
    )

    def __init__(
        self,
        exchange: Exchange,
        connection: Connection,
        *,
        transport: Transport,
        rules: HeaderRules,
        on_end: OnEnd,
    ) -> None:
        self._exchange = exchange
        self._connection = connection
        self._transport = transport
        self._rules = rules
        self._on_end = on_end
        self._is_over = False
        self._is_late = False

    def start(self, head: bytes) -> None:
        self._exchange.watcher = self
        self._connection.listener = self._advance
        self._connection.start(self._exchange.scope["method"], head)

    def stop(self) -> None:
        """Abort the forwarding. `on_end` is not called."""
        self._leave()
        if self._exchange.has_begun:
            self._exchange.cut()

    @property
    def may_be_repeated(self) -> bool:
        """True if the app cannot have responded, as the pooled connection had died unnoticed."""
        return not (self._connection.has_received or self._is_late)

    # Watcher of the exchange

    def on_writable(self) -> None:
        self._advance()

    def on_gone(self) -> None:
        self._end(None)

    def on_wait(self, waited_s: float) -> None:
        if not self._exchange.has_begun and waited_s >= self._transport.timeouts.response_head_s:
            self._is_late = True
            self._end(UpstreamTimeout("The app did not answer in time."))

    def _advance(self) -> None:
        """Forward what has arrived, as far as the client keeps up."""
        if self._is_over:
            return
        connection, exchange = self._connection, self._exchange
        if not exchange.has_begun and not self._begin():
            return
        while exchange.is_writable and connection.has_body_data:
            exchange.write(connection.take())
        if connection.is_drained:
            on_end = self._leave()
            exchange.end()
            on_end(None)
        elif not connection.is_open and not connection.has_body_data:
            on_end = self._leave()
            exchange.cut()
            on_end(None)
        else:
            exchange.flush()

    def _begin(self) -> bool:
        connection, exchange = self._connection, self._exchange
        head = connection.head
        if head is None:
            if not connection.is_open:
                self._end(connection.fault or UpstreamBroken("The connection was closed."))
            return False
        if not 200 <= head.status <= _LARGEST_STATUS:
            self._end(UpstreamBroken(f"The app answered with status {head.status}."))
            return False
        has_body = exchange.scope["method"] == "HEAD" or head.status not in (204, 304)
        exchange.begin(head.status, response_headers(head.headers, self._rules, has_body=has_body))
        return True

    def _end(self, error: UpstreamError | None) -> None:
        if not self._is_over:
            self._leave()(error)

    def _leave(self) -> OnEnd:
        """Release the connection and the exchange; return the `on_end` to call."""
        self._is_over = True
        self._exchange.watcher = None
        self._connection.listener = None
        if self._connection.is_drained:
            self._transport.pool.release(self._connection)
        else:
            self._connection.abort()
        on_end, self._on_end = self._on_end, _ignore_end
        return on_end


def _ignore_end(_fault: UpstreamError | None) -> None:
    """Replacement for `on_end`, which must be called only once."""
