"""Text that grows, followed over lost connections: what was seen already is not shown again."""

import time
from collections.abc import Iterator, Mapping

from berth.errors import Unreachable
from berth.transport import Transport

TAIL_BYTES = 4096
PATIENCE_S = 120.0
PAUSE_S = 1.0
SEAM = b"\n[The connection was lost; some lines may be missing or shown twice.]\n"


def follow_text(transport: Transport, path: str, params: Mapping[str, str]) -> Iterator[bytes]:
    """Pieces of the text until the portal ends it. Raises Unreachable when it stays away for two minutes."""
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
    """How much was handed on, and its end, by which the same text is known again."""

    def __init__(self) -> None:
        self._length = 0
        self._tail = b""

    def fresh(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """What of a text that begins anew was not handed on yet."""
        known, expected = self._length, self._tail
        start, met = 0, b""
        for piece in pieces:
            old, new = piece[: max(0, known - start)], piece[max(0, known - start) :]
            start += len(piece)
            met = (met + old)[-len(expected) :] if expected else b""
            if not new:
                continue
            if expected and met != expected:
                yield SEAM
            expected = b""
            yield self._note(new)
        if start < known:
            yield SEAM

    def _note(self, piece: bytes) -> bytes:
        self._length += len(piece)
        self._tail = (self._tail + piece)[-TAIL_BYTES:]
        return piece
