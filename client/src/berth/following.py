"""Follow a growing text (a log) over lost connections without repeating output."""

import time
from collections.abc import Iterator, Mapping

from berth.errors import Unreachable
from berth.transport import Transport

TAIL_BYTES = 4096
PATIENCE_S = 120.0
PAUSE_S = 1.0
KEPT_BYTES = 20 * 2**20
"""Upper bound of the log that a portal keeps: output seen before is no further from its start."""

SEARCH_S = 20.0
"""Longest search for the end of the output seen before, after a reconnect.

No output is shown during the search.
"""

NOTE = b"[Berth: "
"""First bytes of a log whose beginning the portal has dropped."""

SEAM = b"\n[The connection was lost; some lines may be missing or shown twice.]\n"


def follow_text(transport: Transport, path: str, params: Mapping[str, str]) -> Iterator[bytes]:
    """Yield the pieces of a text until the portal ends it; reconnects after a lost connection.

    Raises Unreachable if the portal is unreachable for two minutes.
    """
    seen = _Seen()
    lost_at: float | None = None
    while True:
        try:
            with transport.stream("GET", path, params=params, silence_s=None) as answer:
                lost_at = None
                yield from seen.fresh(answer.iter_bytes())
            return
        except Unreachable:
            lost_at = lost_at or time.monotonic()
            if time.monotonic() - lost_at > PATIENCE_S:
                raise
        time.sleep(PAUSE_S)


class _Seen:
    """Position in the text: number of bytes handed on, and their first and last bytes.

    After a reconnect the portal sends the text from its start. If the first bytes match, it resumes
    at the length handed on; if the portal has dropped the beginning, at the last bytes handed on.
    """

    def __init__(self) -> None:
        self._length = 0
        self._head = b""
        self._tail = b""

    def fresh(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the bytes that were not handed on yet, from a text that starts again.

        If the position cannot be found, yields SEAM and then the whole text.
        """
        if self._length:
            text, end = self._until_seen(pieces)
            if end is None:
                yield SEAM
            yield from self._noted(bytes(text[end or 0 :]))
        for piece in pieces:
            yield from self._noted(piece)

    def _until_seen(self, pieces: Iterator[bytes]) -> tuple[bytearray, int | None]:
        """Read until the end of the output handed on before; return the bytes read and that
        position.

        The position is None if it was not found. Stops searching when it can no longer be found, so
        that new output is not delayed.
        """
        text = bytearray()
        limit = min(self._length, KEPT_BYTES) + TAIL_BYTES
        deadline = time.monotonic() + SEARCH_S
        for piece in pieces:
            searched = max(0, len(text) - len(self._tail))
            text += piece
            if text[: len(self._head)] == self._head[: len(text)]:
                if len(text) >= self._length and text.endswith(self._tail, 0, self._length):
                    return text, self._length
                if len(text) < self._length:
                    continue
            if self._length >= TAIL_BYTES and (place := text.find(self._tail, searched)) >= 0:
                return text, place + TAIL_BYTES
            if not text.startswith(NOTE[: len(text)]) or len(text) > limit or time.monotonic() > deadline:
                break
        return text, None

    def _noted(self, piece: bytes) -> Iterator[bytes]:
        if piece:
            self._length += len(piece)
            self._head += piece[: TAIL_BYTES - len(self._head)]
            self._tail = (self._tail + piece)[-TAIL_BYTES:]
            yield piece
