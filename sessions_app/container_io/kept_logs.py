"""Store and read the logs of kernels whose containers are gone, so that followers can resume."""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

from agents.runtime.docker.log_entries import START, LogGap, LogPart, LogPosition, LogTail
from sessions_app.core.container_spec import LOG_BYTES
from sessions_app.models import Kernel, KernelLog

STORED_BYTES = 4 * 2**20
"""Largest compressed log in the database, without its index. Most logs stay complete, because text
compresses well.
"""


PIECE_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class StoredLog:
    """Stored log of one attempt of a kernel; `attempt` is None if it is unknown."""

    attempt: int | None
    is_cut: bool
    content_gzip: bytes
    index_gzip: bytes

    @property
    def tail(self) -> LogTail:
        text, index = (
            gzip.decompress(part) if part else b"" for part in (self.content_gzip, self.index_gzip)
        )
        return LogTail.from_index(text, index, is_cut=self.is_cut)

    def parts_after(self, position: LogPosition) -> Iterator[LogPart]:
        """Yield the parts after `position` in pieces of PIECE_BYTES. Reading from START needs
        little memory, because the text is decompressed piece by piece.
        """
        if position == START:
            yield from self._parts()
            return
        for part in list(self.tail.parts_after(position)):
            for begin in range(0, len(part.text), PIECE_BYTES):
                piece = part.text[begin : begin + PIECE_BYTES]
                yield LogPart(piece, part.position, None if begin else part.gap)

    def _parts(self) -> Iterator[LogPart]:
        gap = LogGap(b"", self._first_at()) if self.is_cut else None
        with gzip.open(BytesIO(self.content_gzip)) as content:
            while piece := content.read(PIECE_BYTES):
                yield LogPart(piece, START, gap)
                gap = None

    def _first_at(self) -> bytes:
        with gzip.open(BytesIO(self.index_gzip)) as index:
            line = index.readline()
        return line.split(b" ")[1] if line else b""


def store_log(kernel: Kernel, tail: LogTail) -> None:
    """Store the log of the kernel's present attempt, replacing any earlier one. Idempotent."""
    tail = tail.last(LOG_BYTES)
    content = gzip.compress(tail.text)
    if len(content) > STORED_BYTES:
        tail = tail.last(STORED_BYTES)
        content = gzip.compress(tail.text)
    KernelLog.objects.update_or_create(
        kernel=kernel,
        defaults={
            "content_gzip": content,
            "index_gzip": gzip.compress(tail.index()),
            "size_bytes": len(tail.text),
            "is_cut": tail.is_cut,
            "attempt": kernel.attempt,
        },
    )


def find_stored_log(kernel: Kernel) -> StoredLog | None:
    """Return the stored log of a kernel, or None."""
    kept = KernelLog.objects.filter(kernel=kernel).first()
    if kept is None:
        return None
    return StoredLog(kept.attempt, kept.is_cut, bytes(kept.content_gzip), bytes(kept.index_gzip))
