"""Text that grows, followed over lost connections: what was seen already is not shown again."""

import time
from collections.abc import Iterator, Mapping

from berth.errors import Unreachable
from berth.transport import Transport

TAIL_BYTES = 4096
PATIENCE_S = 120.0
PAUSE_S = 1.0
KEPT_BYTES = 20 * 2**20
"""More than a portal keeps of a log: what was seen is not further from the beginning than that."""

SEARCH_S = 20.0
"""How long after a connection was made again what was seen is looked for; until then nothing of the log is shown."""

NOTE = b"[Berth: "
"""The portal begins a log so of which it lost the beginning."""

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
    """Amount of text that was handed on, with its beginning and its end. A text that begins anew is the same one if it has the same
    beginning; of a long log the portal may have lost that meanwhile, then the end of what was seen is looked for."""

    def __init__(self) -> None:
        self._length = 0
        self._head = b""
        self._tail = b""

    def fresh(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield what of a text that begins anew was not handed on yet; after SEAM all of it where nobody can tell."""
        if self._length:
            text, end = self._until_seen(pieces)
            if end is None:
                yield SEAM
            yield from self._noted(bytes(text[end or 0 :]))
        for piece in pieces:
            yield from self._noted(piece)

    def _until_seen(self, pieces: Iterator[bytes]) -> tuple[bytearray, int | None]:
        """Read until the end of what was handed on has come: what was read, and where that end is; None if it did not come.
        Gives up where it cannot come any more, so that new output is not held back."""
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
