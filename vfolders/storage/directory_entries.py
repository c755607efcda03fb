"""Reads entries of open directories."""

import os
import stat
from datetime import UTC, datetime

from vfolders.storage.base import Entry, EntryKind

_KINDS = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.DIRECTORY, stat.S_IFLNK: EntryKind.LINK}
_LAST_INSTANT_S = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def entry_of(name: str, status: os.stat_result) -> Entry:
    """Return the entry that has this name and status."""
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), EntryKind.OTHER)
    size_bytes = status.st_size if kind is EntryKind.FILE else 0
    return Entry(name, kind, size_bytes, instant(status.st_mtime), etag_of(status))


def etag_of(status: os.stat_result) -> str:
    """Return a text that changes when the entry does."""
    return f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"


def entry_or_none(directory: int, name: str) -> Entry | None:
    """Return the entry, or None if it vanished after the directory was listed."""
    try:
        return entry_of(name, os.stat(name, dir_fd=directory, follow_symlinks=False))
    except FileNotFoundError:
        return None


def instant(seconds: float) -> datetime:
    """Return the time, clamped to valid dates, because sessions may set any time on a file."""
    return datetime.fromtimestamp(min(max(seconds, 0.0), _LAST_INSTANT_S), UTC)
