"""Logs of kernels whose containers are gone, kept so that whoever followed one goes on where they were."""

import gzip
from dataclasses import dataclass

from agents.runtime.log_entries import LogTail
from sessions_app.models import Kernel, KernelLog
from sessions_app.specs import LOG_BYTES

STORED_BYTES = 4 * 2**20
"""What a log takes of the database at most, apart from its index: most are kept whole, for text becomes small."""

NOTHING = LogTail(())


@dataclass(frozen=True, slots=True)
class KeptLog:
    """The log of one attempt of a kernel. `attempt` is None where that is not known."""

    attempt: int | None
    tail: LogTail


def keep_log(kernel: Kernel, tail: LogTail) -> None:
    """Keep the log of the kernel's present attempt in the place of any other. May be repeated."""
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


def kept_log(kernel: Kernel) -> KeptLog | None:
    """Return what was kept of a kernel's last log, or None if nothing was."""
    kept = KernelLog.objects.filter(kernel=kernel).first()
    if kept is None:
        return None
    text, index = (
        gzip.decompress(bytes(part)) if part else b"" for part in (kept.content_gzip, kept.index_gzip)
    )
    return KeptLog(kept.attempt, LogTail.from_index(text, index, is_cut=kept.is_cut))
