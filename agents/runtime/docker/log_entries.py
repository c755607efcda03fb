"""Entries of a container's log, and a reader's position among them. Pure.

An engine keeps only the end of a log, drops its oldest file whenever the newest is full, and does
not number entries. A returning reader finds its position by counting: a stream writes its lines one
after another, so entries of one stream with the same timestamp are consecutive. An entry is
identified by (stream, timestamp, number among these). Its text does not identify it, because pieces
of one long line share a timestamp and may repeat.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A line, or a piece of a line that is too long for the engine or has not ended yet. `stream`
    is 1 for stdout and 2 for stderr; `at` is the timestamp as the engine writes it. All pieces of a
    line have the timestamp of the first.
    """

    stream: int
    at: bytes
    text: bytes


class Identity(NamedTuple):
    """Stream, timestamp and checksum of an entry.
    Not unique in a log, but sufficient to detect a wrong position.
    """

    stream: int
    at: bytes
    checksum: int


class Mark(NamedTuple):
    """Newest entry of one stream before a position: number `number` among those with timestamp
    `at`, followed by `behind` entries of the other stream. `is_first`: the reader saw no earlier
    timestamp in this stream.
    """

    stream: int
    at: bytes
    number: int
    behind: int
    is_first: bool


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A position in a log: after the entry `last`. Each mark suffices to find it."""

    last: Identity | None = None
    marks: tuple[Mark, ...] = ()

    def after(self, entries: Sequence[LogEntry]) -> "LogPosition":
        if not entries:
            return self
        newest = {mark.stream: (mark.at, mark.number, -mark.behind, mark.is_first) for mark in self.marks}
        for place, entry in enumerate(entries, 1):
            at, number, _place, is_first = newest.get(entry.stream, (entry.at, 0, 0, True))
            if at == entry.at:
                newest[entry.stream] = (at, number + 1, place, is_first)
            else:
                newest[entry.stream] = (entry.at, 1, place, False)
        marks = (
            Mark(stream, at, number, len(entries) - place, is_first)
            for stream, (at, number, place, is_first) in sorted(newest.items())
        )
        return LogPosition(identity_of(entries[-1]), tuple(marks))

    @property
    def at(self) -> bytes:
        """Timestamp of the entry before this position; b"" at the beginning."""
        return self.last.at if self.last else b""

    @property
    def reach(self) -> int | None:
        """Number of entries, counted back from this position, that a search must cover at least;
        more if the streams are mixed. None: search from the beginning of the log.
        """
        return min((mark.number + mark.behind + 1 for mark in self.marks if not mark.is_first), default=None)


START = LogPosition()


@dataclass(frozen=True, slots=True)
class LogGap:
    """Output that is no longer available, written after `since` and before `until`, both as the
    engine writes timestamps; b"" if unknown.
    """

    since: bytes
    until: bytes


@dataclass(frozen=True, slots=True)
class LogPart:
    """Next part of a followed log: `text` up to `position`, preceded by the missing `gap`. A
    preview is text of an unfinished line; it does not advance the position, and its text is sent
    again when the line has ended.
    """

    text: bytes
    position: LogPosition
    gap: LogGap | None = None
    is_preview: bool = False


class EntrySearch:
    """Search for a position in a log, or in the end of one (`is_whole=False`). Feed the entries in
    order; when it is found, `position` is that position as counted in this log.
    """

    def __init__(self, wanted: LogPosition, *, is_whole: bool = True) -> None:
        self.position = wanted
        self.is_found = wanted == START
        self.may_be_renumbered = False  # the log begins among the entries that are counted
        self._marks = {mark.stream: mark for mark in wanted.marks}
        self._is_whole = is_whole
        self._bounded: set[int] = set()  # streams in which another timestamp was seen
        self._counts = dict.fromkeys(self._marks, 0)
        self._remaining: int | None = None  # entries up to the position

    def feed(self, entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
        """Return the entries that come after the wanted position."""
        if self.is_found:
            return entries
        for index, entry in enumerate(entries, 1):
            if self._remaining is None:
                self._count(entry)
            else:
                self._remaining -= 1
            if self._remaining == 0:
                self.is_found = identity_of(entry) == self.position.last
                if self.is_found:
                    return entries[index:]
                self._remaining = None
        return ()

    def _count(self, entry: LogEntry) -> None:
        mark = self._marks.get(entry.stream)
        if mark is None:
            return
        if entry.at != mark.at:
            self._bounded.add(entry.stream)
            return
        if entry.stream not in self._bounded:
            self.may_be_renumbered = True
            if not self._is_whole:
                return
        self._counts[entry.stream] += 1
        if self._counts[entry.stream] == mark.number:
            self._remaining = mark.behind


class TextSearch:
    """Search by text, for a log whose beginning was dropped within the long line that contains the
    position, so that counting fails.

    The first entry with the right text is taken. If pieces of that line repeat, the reader may get
    some again, or miss equal ones if the exact entry was dropped too.
    """

    def __init__(self, wanted: LogPosition) -> None:
        self.position = START
        self.is_found = False
        self._wanted = wanted.last

    def feed(self, entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
        """Return the entries that come after the wanted position."""
        if self.is_found:
            return entries
        for index, entry in enumerate(entries, 1):
            if identity_of(entry) == self._wanted:
                self.is_found = True
                self.position = self.position.after(entries[:index])
                return entries[index:]
        self.position = self.position.after(entries)
        return ()


def identity_of(entry: LogEntry) -> Identity:
    return Identity(entry.stream, entry.at, crc32(entry.text))


def text_of(entries: Iterable[LogEntry]) -> bytes:
    return b"".join(entry.text for entry in entries)


def part_of(entries: Sequence[LogEntry], position: LogPosition, *, has_gap: bool = False) -> LogPart:
    """Return `entries` as the next part for a reader at `position`.
    After a gap, counting starts anew.
    """
    if has_gap:
        return LogPart(text_of(entries), START.after(entries), LogGap(position.at, entries[0].at))
    return LogPart(text_of(entries), position.after(entries))


@dataclass(frozen=True, slots=True)
class LogTail:
    """The end of a log. `is_cut`: earlier entries exist or may have existed."""

    entries: tuple[LogEntry, ...]
    is_cut: bool = False

    @property
    def text(self) -> bytes:
        return text_of(self.entries)

    def last(self, limit_bytes: int) -> "LogTail":
        """Return the last entries of at most `limit_bytes` in total, but at least one."""
        first = max(0, len(self.entries) - 1)
        size = len(self.entries[first].text) if self.entries else 0
        while first and size + len(self.entries[first - 1].text) <= limit_bytes:
            first -= 1
            size += len(self.entries[first].text)
        return LogTail(self.entries[first:], self.is_cut or first > 0)

    def parts_after(self, position: LogPosition) -> Iterator[LogPart]:
        """Yield the parts that a reader at `position` has not seen."""
        search: EntrySearch | TextSearch = EntrySearch(position, is_whole=not self.is_cut)
        fresh = search.feed(self.entries)
        if not search.is_found:
            search = TextSearch(position)
            fresh = search.feed(self.entries)
        if self.entries and not search.is_found:
            yield part_of(self.entries, position, has_gap=True)
        elif fresh:
            yield part_of(fresh, search.position, has_gap=position == START and self.is_cut)

    def index(self) -> bytes:
        """Return the index that `from_index` needs beside the text: one line per entry."""
        return b"\n".join(b"%d %s %d" % (entry.stream, entry.at, len(entry.text)) for entry in self.entries)

    @classmethod
    def from_index(cls, text: bytes, index: bytes, *, is_cut: bool) -> "LogTail":
        """Rebuild a tail from its text and `index`. Without an index the text becomes one entry."""
        if not index:
            return cls((LogEntry(1, b"", text),) if text else (), is_cut)
        entries, start = [], 0
        for line in index.split(b"\n"):
            stream, at, length = line.split(b" ")
            end = start + int(length)
            entries.append(LogEntry(int(stream), at, text[start:end]))
            start = end
        return cls(tuple(entries), is_cut)
