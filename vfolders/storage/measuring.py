"""Measures the size of a directory tree by file descriptors while others change it.

No link is followed and only directories are opened. A tree of any depth is walked with few
descriptors: a deep directory is opened from an anchor, which is an ancestor that stays open. A
directory that cannot be entered, because it was moved or is not readable, makes the result
incomplete. Holes in files are not counted.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from vfolders.core.paths import ROOT, EntryPath
from vfolders.storage import descriptors
from vfolders.storage.base import Effort, Usage

_LEVELS_BELOW_AN_ANCHOR = 64
_MAX_ANCHORS = 200
# limit on directories to visit plus files with several links, which are kept in memory
_MAX_REMEMBERED = 2_000_000
_THROTTLE_INTERVAL_S = 0.02
MAX_BYTES = 2**53 - 1  # more than any host has; the database can add up a thousand of these
_INLINE_BYTES = 64 * 2**10  # files up to this size may be stored in the inode and use no block
_BLOCK_BYTES = 512  # unit of `st_blocks` on every filesystem


# Receives each counted file: directory, name, stored bytes, time of the last change (Unix).
FileObserver = Callable[[EntryPath, str, int, float], None]


def measure(folder: int, effort: Effort, observe: FileObserver | None = None) -> Usage:
    """Measure everything below the open directory `folder`."""
    walk = _Walk(effort, observe)
    walk.run(folder)
    return Usage(walk.size_bytes, walk.file_count, is_complete=walk.is_complete)


@dataclass(slots=True, eq=False)
class _Anchor:
    """An open directory, and the number of directories below it that are still to be visited."""

    descriptor: int
    path: EntryPath = ROOT  # in the folder
    waiting: int = 1


class _Walk:
    def __init__(self, effort: Effort, observe: FileObserver | None) -> None:
        self._observe = observe
        self.size_bytes = self.file_count = 0
        self.is_complete = True
        self._effort, self._entries = effort, 0
        self._ends_at = time.monotonic() + effort.max_s
        self._working_since = time.monotonic()
        self._linked: set[tuple[int, int]] = set()
        self._anchors: list[_Anchor] = []
        self._pending: list[tuple[_Anchor, EntryPath]] = []

    def run(self, folder: int) -> None:
        self._root = _Anchor(os.dup(folder))
        self._anchors.append(self._root)
        self._pending.append((self._root, ROOT))
        try:
            while self._pending and self._has_budget():
                anchor, path = self._anchored(*self._pending.pop())
                self._count(anchor, path)
                self._release(anchor)
            self.is_complete &= not self._pending
            self._throttle()
        finally:
            for anchor in self._anchors:
                os.close(anchor.descriptor)

    def _count(self, anchor: _Anchor, path: EntryPath) -> None:
        try:
            self._count_entries(anchor, path)
        except OSError:
            if anchor is self._root and path == ROOT:
                raise
            self.is_complete = False

    def _count_entries(self, anchor: _Anchor, path: EntryPath) -> None:
        for name, status in _statuses(anchor.descriptor, path):
            if stat.S_ISDIR(status.st_mode):
                anchor.waiting += 1
                self._pending.append((anchor, (*path, name)))
            elif stat.S_ISREG(status.st_mode):
                self._add(status, anchor, path, name)
            self._entries += 1
            if not self._has_budget():
                self.is_complete = False
                return

    def _add(self, status: os.stat_result, anchor: _Anchor, path: EntryPath, name: str) -> None:
        if status.st_nlink > 1:
            node = (status.st_dev, status.st_ino)
            if node in self._linked:
                return
            self._linked.add(node)
        size_bytes = _stored_bytes(status)
        self.size_bytes = min(MAX_BYTES, self.size_bytes + size_bytes)
        self.file_count += 1
        if self._observe:
            self._observe((*anchor.path, *path), name, size_bytes, status.st_mtime)

    def _has_budget(self) -> bool:
        """True unless the effort is used up."""
        now = time.monotonic()
        if now > self._working_since + _THROTTLE_INTERVAL_S:
            self._throttle()
        remembered = len(self._pending) + len(self._linked)
        return (
            self._entries < self._effort.max_entries and now < self._ends_at and remembered < _MAX_REMEMBERED
        )

    def _throttle(self) -> None:
        """Sleep so that, since the last sleep, the process used only its share of a core."""
        if self._effort.share < 1:
            took_s = time.monotonic() - self._working_since
            time.sleep(took_s * (1 - self._effort.share) / self._effort.share)
        self._working_since = time.monotonic()

    def _anchored(self, anchor: _Anchor, path: EntryPath) -> tuple[_Anchor, EntryPath]:
        """Return the anchor and relative path of the same directory; a directory far below its
        anchor becomes an anchor itself.
        """
        if len(path) < _LEVELS_BELOW_AN_ANCHOR:
            return anchor, path
        if len(self._anchors) == _MAX_ANCHORS:
            return anchor, _UNREACHABLE
        try:
            with descriptors.descend(anchor.descriptor, path) as found:
                deeper = _Anchor(os.dup(found), (*anchor.path, *path))
        except OSError:
            return anchor, _UNREACHABLE
        self._anchors.append(deeper)
        self._release(anchor)
        return deeper, ROOT

    def _release(self, anchor: _Anchor) -> None:
        anchor.waiting -= 1
        if not anchor.waiting:
            self._anchors.remove(anchor)
            os.close(anchor.descriptor)


_UNREACHABLE: EntryPath = ("",)  # cannot be entered


def _stored_bytes(status: os.stat_result) -> int:
    if status.st_size <= _INLINE_BYTES:
        return status.st_size
    return min(status.st_size, status.st_blocks * _BLOCK_BYTES)


def _statuses(folder: int, path: EntryPath) -> Iterator[tuple[str, os.stat_result]]:
    """Yield name and status of each entry. Raises OSError if the directory cannot be entered."""
    with descriptors.descend(folder, path) as directory, os.scandir(directory) as found:
        for entry in found:
            with suppress(FileNotFoundError):
                yield entry.name, entry.stat(follow_symlinks=False)
