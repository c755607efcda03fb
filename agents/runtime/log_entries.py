"""Entries of a container's log, and the position of a reader among them. Pure.

An engine keeps the end of a log only, drops its oldest part whenever a file is full, and numbers nothing. So a reader
who comes back finds its place by the entry that it saw last: by its stream, the engine's time for it and its text.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

Identity = tuple[int, bytes, int]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A line, or a piece of one that was too long for the engine or did not end yet. `stream` is 1 for stdout and 2 for
    stderr; `at` is the engine's time as it writes it: all pieces of a line have the time of the first."""

    stream: int
    at: bytes
    text: bytes


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A place in a log: after `count` equal entries `last` that follow an entry `previous`. Two readers of one log who
    have both seen `previous` have equal positions at the same place and nowhere else, also where the same piece is
    repeated many times in one long line."""

    previous: Identity | None = None
    last: Identity | None = None
    count: int = 0

    def after(self, entries: Iterable[LogEntry]) -> "LogPosition":
        previous, last, count = self.previous, self.last, self.count
        for entry in entries:
            identity = (entry.stream, entry.at, crc32(entry.text))
            if identity == last:
                count += 1
            else:
                previous, last, count = last, identity, 1
        return LogPosition(previous, last, count)

    @property
    def at(self) -> bytes:
        """The time of the entry before this place; b"" at the beginning."""
        return self.last[1] if self.last else b""


START = LogPosition()


@dataclass(frozen=True, slots=True)
class LogGap:
    """Output that nobody can read any more. It was written after `since` and before `until`, both in the engine's words;
    b"" where that is not known."""

    since: bytes
    until: bytes


@dataclass(frozen=True, slots=True)
class LogPart:
    """The next part of a followed log: `text`, before which `gap` is missing, up to `position`. A preview is text of a line
    that has not ended; the position stays, and the text comes again when its line has ended."""

    text: bytes
    position: LogPosition
    gap: LogGap | None = None
    is_preview: bool = False


class EntrySearch:
    """Looks for a position in a log that is read from some entry on; feed the entries in order."""

    def __init__(self, wanted: LogPosition) -> None:
        self._wanted = wanted
        self._here = START
        self.is_found = wanted == START

    def feed(self, entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
        """Return those of the entries that come after the wanted position."""
        if self.is_found:
            return entries
        for index, entry in enumerate(entries, 1):
            self._here = self._here.after((entry,))
            if self._here == self._wanted:
                self.is_found = True
                return entries[index:]
        return ()


def text_of(entries: Iterable[LogEntry]) -> bytes:
    return b"".join(entry.text for entry in entries)


def part_of(entries: Sequence[LogEntry], position: LogPosition, *, has_gap: bool = False) -> LogPart:
    """Return the part that `entries` are for a reader at `position`."""
    gap = LogGap(position.at, entries[0].at) if has_gap else None
    return LogPart(text_of(entries), position.after(entries), gap)


@dataclass(frozen=True, slots=True)
class LogTail:
    """The end of a log. `is_cut`: there was more before it, or may have been."""

    entries: tuple[LogEntry, ...]
    is_cut: bool = False

    @property
    def text(self) -> bytes:
        return text_of(self.entries)

    def last(self, limit_bytes: int) -> "LogTail":
        """Return its last entries of together at most `limit_bytes`, but at least the last one."""
        first = max(0, len(self.entries) - 1)
        size = len(self.entries[first].text) if self.entries else 0
        while first and size + len(self.entries[first - 1].text) <= limit_bytes:
            first -= 1
            size += len(self.entries[first].text)
        return LogTail(self.entries[first:], self.is_cut or first > 0)

    def parts_after(self, position: LogPosition) -> Iterator[LogPart]:
        """Yield what a reader at `position` has not seen."""
        search = EntrySearch(position)
        fresh = search.feed(self.entries)
        if not search.is_found:
            fresh = self.entries
        if fresh:
            yield part_of(fresh, position, has_gap=not search.is_found or (position == START and self.is_cut))

    def index(self) -> bytes:
        """Return what `from_index` needs beside the text: a line for each entry."""
        return b"\n".join(b"%d %s %d" % (entry.stream, entry.at, len(entry.text)) for entry in self.entries)

    @classmethod
    def from_index(cls, text: bytes, index: bytes, *, is_cut: bool) -> "LogTail":
        """Undo `index`. Without an index the text is one entry."""
        if not index:
            return cls((LogEntry(1, b"", text),) if text else (), is_cut)
        entries, start = [], 0
        for line in index.split(b"\n"):
            stream, at, length = line.split(b" ")
            end = start + int(length)
            entries.append(LogEntry(int(stream), at, text[start:end]))
            start = end
        return cls(tuple(entries), is_cut)
