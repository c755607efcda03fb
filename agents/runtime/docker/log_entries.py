"""Entries of a container's log, and the position of a reader among them. Pure.

An engine keeps only the end of a log, drops its oldest file whenever the newest is full, and numbers nothing. A reader who
comes back finds its place by counting: the entries of one stream with one time follow one another, because a stream writes
its lines one after another. So (stream, time, number among these) names an entry; its text does not, because the pieces
of one long line have one time and may repeat.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A line, or a piece of one that was too long for the engine or did not end yet. `stream` is 1 for stdout and 2 for
    stderr; `at` is the engine's time as it writes it: all pieces of a line have the time of the first."""

    stream: int
    at: bytes
    text: bytes


class Identity(NamedTuple):
    """Stream, time and checksum of an entry: not unique in a log, but good enough to see that a place is wrong."""

    stream: int
    at: bytes
    checksum: int


class Mark(NamedTuple):
    """The newest entry of a stream before a position: the `number`th of those with the time `at`, and `behind` entries of
    the other stream came after it. `is_first`: the reader saw no other time in this stream before."""

    stream: int
    at: bytes
    number: int
    behind: int
    is_first: bool


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A place in a log: after the entry `last`. Each mark leads to it by itself."""

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
        """The time of the entry before this place; b"" at the beginning."""
        return self.last.at if self.last else b""

    @property
    def reach(self) -> int | None:
        """Return how many entries back from here a search begins at the latest to find this place, and further where the
        streams are mixed; None: at the beginning of the log."""
        return min((mark.number + mark.behind + 1 for mark in self.marks if not mark.is_first), default=None)


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
    """Looks for a position in a log, or in the end of one (`is_whole=False`); feed the entries in order. When it is found,
    `position` is that place as it is counted in this log."""

    def __init__(self, wanted: LogPosition, *, is_whole: bool = True) -> None:
        self.position = wanted
        self.is_found = wanted == START
        self.may_be_renumbered = False  # the log begins among the entries that are counted
        self._marks = {mark.stream: mark for mark in wanted.marks}
        self._is_whole = is_whole
        self._bounded: set[int] = set()  # streams of which an entry with another time came
        self._counts = dict.fromkeys(self._marks, 0)
        self._remaining: int | None = None  # entries until the place

    def feed(self, entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
        """Return those of the entries that come after the wanted position."""
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
    """Looks for a position in a log that begins within the long line where the position is: what came before was dropped, so
    counting does not help. The first entry that looks right is taken: if the pieces of that line repeat, the reader sees some
    again, or misses some that were equal to others if the very place was dropped too."""

    def __init__(self, wanted: LogPosition) -> None:
        self.position = START
        self.is_found = False
        self._wanted = wanted.last

    def feed(self, entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
        """Return those of the entries that come after the wanted position."""
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
    """Return the part that `entries` are for a reader at `position`. After a gap they are counted anew."""
    if has_gap:
        return LogPart(text_of(entries), START.after(entries), LogGap(position.at, entries[0].at))
    return LogPart(text_of(entries), position.after(entries))


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
