"""Joins the client and app connections of one websocket, frame by frame."""

import asyncio
from typing import cast

from transport.proxy.websocket_frames import (
    GOING_AWAY,
    INTERNAL_ERROR,
    FrameFault,
    FrameWatch,
    OnMessage,
    close_frame,
    ping_frame,
)

# Time for a side to finish a frame, or to answer our close frame.
CLOSE_TIMEOUT_S = 2.0
# Time for both sides to finish the closing handshake.
CLOSING_S = 10.0
# A client silent for this long is sent a ping, and must answer within as long again.
PING_INTERVAL_S = 30.0
_WRITE_HIGH_BYTES = 256 * 1024


class Splice:
    """Forwards each side's bytes to the other, and pauses a side while the other does not read.
    `finished` is done once both connections are closed. Pings a silent client; the app side is
    closed if the client has vanished.
    """

    def __init__(
        self, *, ping_interval_s: float = PING_INTERVAL_S, on_message: OnMessage | None = None
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.finished: asyncio.Future[None] = self.loop.create_future()
        self.client = Side(self, is_client=True, on_message=on_message)
        self.app = Side(self, is_client=False)
        self.client.other, self.app.other = self.app, self.client
        self._ping_interval_s = ping_interval_s
        self._is_ping_pending = False
        self._is_ending = False
        self._ping_timer = self.loop.call_later(ping_interval_s, self._check_client)

    def close(self, code: int, reason: str) -> None:
        """Close both sides: the client with this code and reason, the app with GOING_AWAY."""
        self.client.close_with(code, reason)
        self.app.close_with(GOING_AWAY, "")

    def on_fault(self, side: "Side", fault: FrameFault) -> None:
        """Close the side that violated the protocol with the fault's code, and the other side."""
        side.close_with(fault.code, str(fault))
        side.other.close_with(INTERNAL_ERROR if side is self.app else GOING_AWAY, "")

    def on_close_frame(self) -> None:
        """Handle a close frame of one side."""
        if self.client.watch.has_closed and self.app.watch.has_closed:
            self.client.transport.close()
            self.app.transport.close()
        elif not self._is_ending:
            self._is_ending = True
            self.loop.call_later(CLOSING_S, self.abort)

    def on_lost(self, side: "Side") -> None:
        if side.other.is_lost:
            self._ping_timer.cancel()
            if not self.finished.done():
                self.finished.set_result(None)
        elif side.watch.has_closed or side.other.is_write_closed:
            side.other.transport.close()
        elif side is self.app:
            self.client.close_with(INTERNAL_ERROR, "The app closed the connection.")
        else:
            self.app.close_with(GOING_AWAY, "")

    def abort(self) -> None:
        for side in (self.client, self.app):
            if not side.is_lost:
                side.transport.abort()

    def _check_client(self) -> None:
        """Ping a silent client, or abort it if it did not answer the last ping. The ping also keeps
        the connection alive in middleboxes that drop idle connections.
        """
        client = self.client
        is_alive = client.has_sent_data or client.is_read_paused
        client.has_sent_data = False
        if self._is_ping_pending and not is_alive:
            client.transport.abort()
            return
        self._is_ping_pending = not is_alive and self.app.watch.is_between_frames
        if self._is_ping_pending and not client.is_write_closed and not client.is_lost:
            client.transport.write(ping_frame())
        self._ping_timer = self.loop.call_later(self._ping_interval_s, self._check_client)


class Side(asyncio.Protocol):
    """Connection to the client or to the app."""

    transport: asyncio.Transport
    other: "Side"

    def __init__(self, splice: Splice, *, is_client: bool, on_message: OnMessage | None = None) -> None:
        self.watch = FrameWatch(is_masked=is_client, on_message=on_message)
        self.has_sent_data = False
        self.is_read_paused = False  # reading is paused, as the other side does not read
        self.is_write_closed = False  # nothing more is forwarded to it
        self.is_lost = False
        self._splice = splice
        self._is_client = is_client
        self._close_frame = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)

    def data_received(self, data: bytes) -> None:
        self.has_sent_data = True
        was_closed = self.watch.has_closed
        try:
            self.watch.feed(data)
        except FrameFault as fault:
            self._splice.on_fault(self, fault)
            return
        other = self.other
        if not (was_closed or other.is_write_closed or other.is_lost):
            other.transport.write(data)
            if other._close_frame and self.watch.is_between_frames:
                other._send_close_frame()
        if self.watch.has_closed:
            if self.is_write_closed:
                self.transport.close()  # it has answered our close frame
            self._splice.on_close_frame()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._splice.on_lost(self)

    def pause_writing(self) -> None:
        if not self.other.is_lost:
            self.other.is_read_paused = True
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if not self.other.is_lost and self.other.is_read_paused:
            self.other.is_read_paused = False
            self.other.transport.resume_reading()

    def close_with(self, code: int, reason: str) -> None:
        """Send a close frame after the current frame, then close; abort after CLOSE_TIMEOUT_S."""
        if self.is_lost or self.is_write_closed or self._close_frame:
            return
        self._close_frame = close_frame(code, reason, is_masked=not self._is_client)
        if self.other.watch.is_between_frames:
            self._send_close_frame()
        elif self.other.is_lost:
            self.transport.abort()
        self._splice.loop.call_later(CLOSE_TIMEOUT_S, self._leave)

    def _send_close_frame(self) -> None:
        self.is_write_closed = True
        self.transport.write(self._close_frame)
        self.resume_writing()  # the other side must not wait for a side that gets nothing more
        if self.is_read_paused:
            self.is_read_paused = False
            self.transport.resume_reading()

    def _leave(self) -> None:
        if not self.is_lost:
            self.transport.abort()
