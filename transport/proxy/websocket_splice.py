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
FAREWELL_S = 2.0
# Time for both sides to finish the closing handshake.
CLOSING_S = 10.0
# A client silent for this long is sent a ping, and must answer within as long again.
VIGIL_S = 30.0
_WRITE_HIGH_BYTES = 256 * 1024


class Splice:
    """Forwards each side's bytes to the other, and pauses a side while the other does not read.
    `finished` is done once both connections are closed. Pings a silent client; the app side is
    closed if the client has vanished.
    """

    def __init__(self, *, vigil_s: float = VIGIL_S, on_message: OnMessage | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.finished: asyncio.Future[None] = self.loop.create_future()
        self.client = Side(self, is_client=True, on_message=on_message)
        self.app = Side(self, is_client=False)
        self.client.other, self.app.other = self.app, self.client
        self._vigil_s = vigil_s
        self._is_asked = False
        self._is_ending = False
        self._vigil = self.loop.call_later(vigil_s, self._look)

    def close(self, code: int, reason: str) -> None:
        """Close both sides: the client with this code and reason, the app with GOING_AWAY."""
        self.client.say_goodbye(code, reason)
        self.app.say_goodbye(GOING_AWAY, "")

    def on_fault(self, side: "Side", fault: FrameFault) -> None:
        """Close the side that violated the protocol with the fault's code,
        and close the other side.
        """
        side.say_goodbye(fault.code, str(fault))
        side.other.say_goodbye(INTERNAL_ERROR if side is self.app else GOING_AWAY, "")

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
            self._vigil.cancel()
            if not self.finished.done():
                self.finished.set_result(None)
        elif side.watch.has_closed or side.other.is_deaf:
            side.other.transport.close()
        elif side is self.app:
            self.client.say_goodbye(INTERNAL_ERROR, "The app closed the connection.")
        else:
            self.app.say_goodbye(GOING_AWAY, "")

    def abort(self) -> None:
        for side in (self.client, self.app):
            if not side.is_lost:
                side.transport.abort()

    def _look(self) -> None:
        """Ping a silent client, or abort it if it did not answer the last ping. The ping also keeps
        the connection alive in middleboxes that drop idle connections.
        """
        client = self.client
        has_sign = client.has_spoken or client.is_held
        client.has_spoken = False
        if self._is_asked and not has_sign:
            client.transport.abort()
            return
        self._is_asked = not has_sign and self.app.watch.is_between_frames
        if self._is_asked and not client.is_deaf and not client.is_lost:
            client.transport.write(ping_frame())
        self._vigil = self.loop.call_later(self._vigil_s, self._look)


class Side(asyncio.Protocol):
    """Connection to the client or to the app."""

    transport: asyncio.Transport
    other: "Side"

    def __init__(self, splice: Splice, *, is_client: bool, on_message: OnMessage | None = None) -> None:
        self.watch = FrameWatch(is_masked=is_client, on_message=on_message)
        self.has_spoken = False
        self.is_held = False  # reading is paused, as the other side does not read
        self.is_deaf = False  # nothing more is forwarded to it
        self.is_lost = False
        self._splice = splice
        self._is_client = is_client
        self._goodbye = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)

    def data_received(self, data: bytes) -> None:
        self.has_spoken = True
        was_closed = self.watch.has_closed
        try:
            self.watch.feed(data)
        except FrameFault as fault:
            self._splice.on_fault(self, fault)
            return
        other = self.other
        if not (was_closed or other.is_deaf or other.is_lost):
            other.transport.write(data)
            if other._goodbye and self.watch.is_between_frames:
                other._send_goodbye()
        if self.watch.has_closed:
            if self.is_deaf:
                self.transport.close()  # it has answered our close frame
            self._splice.on_close_frame()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._splice.on_lost(self)

    def pause_writing(self) -> None:
        if not self.other.is_lost:
            self.other.is_held = True
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if not self.other.is_lost and self.other.is_held:
            self.other.is_held = False
            self.other.transport.resume_reading()

    def say_goodbye(self, code: int, reason: str) -> None:
        """Send a close frame after the frame in progress, then close; abort if
        that takes longer than FAREWELL_S.
        """
        if self.is_lost or self.is_deaf or self._goodbye:
            return
        self._goodbye = close_frame(code, reason, is_masked=not self._is_client)
        if self.other.watch.is_between_frames:
            self._send_goodbye()
        elif self.other.is_lost:
            self.transport.abort()
        self._splice.loop.call_later(FAREWELL_S, self._leave)

    def _send_goodbye(self) -> None:
        self.is_deaf = True
        self.transport.write(self._goodbye)
        self.resume_writing()  # the other side must not wait for a side that gets nothing more
        if self.is_held:
            self.is_held = False
            self.transport.resume_reading()

    def _leave(self) -> None:
        if not self.is_lost:
            self.transport.abort()
