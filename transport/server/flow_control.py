"""Flow control of a connection: pauses reading and writing so that buffers stay bounded."""

import asyncio


class FlowControl(asyncio.Protocol):
    """Flow control of one connection. Subclasses set `_transport` when the connection is made."""

    _transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.is_write_paused = False
        self._is_read_paused = False
        self._drain: asyncio.Future[None] | None = None

    @property
    def _is_gone(self) -> bool:
        raise NotImplementedError

    def pause_writing(self) -> None:
        self.is_write_paused = True

    def resume_writing(self) -> None:
        self.is_write_paused = False
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    async def drained(self) -> None:
        """Return when the client keeps up, or has left."""
        while self.is_write_paused:
            if self._drain is None or self._drain.done():
                self._drain = self.loop.create_future()
            await asyncio.shield(self._drain)

    def _pause_reading(self) -> None:
        if not self._is_read_paused and not self._is_gone:
            self._is_read_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_read_paused and not self._is_gone:
            self._is_read_paused = False
            self._transport.resume_reading()
