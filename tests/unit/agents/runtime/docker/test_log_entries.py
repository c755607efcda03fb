"""Positions of a reader in a log."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agents.runtime.docker.log_entries import START, EntrySearch, LogEntry, LogTail, text_of
from agents.runtime.docker.logs import EntrySplitter, stored_bytes

TIMES = [b"2026-01-01T00:00:00.5Z", b"2026-01-01T00:00:01Z"]


@st.composite
def entries_of_few_kinds(draw: st.DrawFn) -> list[LogEntry]:
    """Two streams whose long lines have pieces with the same time and often the same text. Each writes line after line."""
    streams = draw(st.lists(st.sampled_from([1, 2]), max_size=12))
    second_lines = {stream: draw(st.integers(0, 12)) for stream in (1, 2)}
    texts = st.sampled_from([b"x" * 9, b"y"])
    return [
        LogEntry(stream, TIMES[number >= second_lines[stream]], draw(texts))
        for number, stream in enumerate(streams)
    ]


@given(entries_of_few_kinds(), st.data())
def test_a_reader_finds_its_place_among_equal_entries(entries: list[LogEntry], data: st.DataObject) -> None:
    seen = data.draw(st.integers(0, len(entries)))
    place = START.after(entries[:seen])

    assert EntrySearch(place).feed(entries) == entries[seen:]


@given(entries_of_few_kinds(), st.data())
def test_a_reader_of_the_end_of_a_log_finds_its_place_there_or_none(
    entries: list[LogEntry], data: st.DataObject
) -> None:
    entries = [LogEntry(1, b"2026-01-01T00:00:00Z", b"begin\n"), *entries]
    seen = data.draw(st.integers(1, len(entries)))
    place = START.after(entries[:seen])

    tail = EntrySearch(place, is_whole=False)
    fresh = tail.feed(entries[data.draw(st.integers(0, len(entries))) :])
    assert list(fresh) == (entries[seen:] if tail.is_found else [])


@given(entries_of_few_kinds(), st.data())
def test_a_place_does_not_depend_on_the_parts_that_were_read(
    entries: list[LogEntry], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(entries)))
    assert START.after(entries[:cut]).after(entries[cut:]) == START.after(entries)


@given(entries_of_few_kinds(), st.data())
def test_a_reader_misses_nothing_of_a_long_line_whose_beginning_was_dropped(
    entries: list[LogEntry], data: st.DataObject
) -> None:
    entries = [LogEntry(1, b"2026-01-01T00:00:00Z", b"begin\n"), *entries]
    seen = data.draw(st.integers(1, len(entries)))
    dropped = data.draw(st.integers(0, seen - 1))
    parts = list(LogTail(tuple(entries[dropped:]), is_cut=True).parts_after(START.after(entries[:seen])))

    fresh = entries[seen:]
    assert b"".join(part.text for part in parts).endswith(text_of(fresh))
    for part in parts:
        assert EntrySearch(part.position).feed(entries[dropped:]) == []


def test_reader_is_told_of_dropped_entries() -> None:
    log = tuple(LogEntry(1, b"2026-01-01T00:00:%02dZ" % second, b"%d\n" % second) for second in range(9))
    [part] = LogTail(log[5:]).parts_after(START.after(log[:3]))

    assert part.text == b"5\n6\n7\n8\n"
    assert part.gap is not None
    assert (part.gap.since, part.gap.until) == (log[2].at, log[5].at)
    assert part.position == START.after(log)


@given(entries_of_few_kinds())
def test_an_index_tells_entries_apart_again(entries: list[LogEntry]) -> None:
    tail = LogTail(tuple(entries))
    assert LogTail.from_index(tail.text, tail.index(), is_cut=False) == tail


@given(st.integers(0, 40))
def test_the_last_entries_of_a_log_are_whole(limit: int) -> None:
    log = LogTail(tuple(LogEntry(1, b"", b"%d\n" % number) for number in range(8, 13)))
    kept = log.last(limit)

    assert kept.entries
    assert log.text.endswith(kept.text)
    assert len(kept.text) <= max(limit, 3)
    assert kept.is_cut == (kept.entries != log.entries)


@given(st.lists(st.integers(0, 60), max_size=5))
def test_frames_with_times_become_entries_however_they_are_cut(cuts: list[int]) -> None:
    bodies = [(1, b"2026-01-01T00:00:00.5Z one two\n"), (2, b"2026-01-01T00:00:01Z ")]
    stream = b"".join(bytes([kind, 0, 0, 0]) + len(body).to_bytes(4, "big") + body for kind, body in bodies)
    ends = sorted({0, *cuts, len(stream)})
    splitter = EntrySplitter()
    found = [entry for begin, end in pairwise(ends) for entry in splitter.feed(stream[begin:end])]

    assert found == [
        LogEntry(1, b"2026-01-01T00:00:00.5Z", b"one two\n"),
        LogEntry(2, b"2026-01-01T00:00:01Z", b""),
    ]
    assert text_of(found) == b"one two\n"


def test_an_entry_takes_as_much_of_the_disk_as_the_engine_writes() -> None:
    line = b'{"log":"\\u003ca\\u003e \\"\xc3\xb6\\" \\u001b[1m\\n","stream":"stdout","time":"2026-11-29T01:51:07.475004617Z"}\n'
    entry = LogEntry(1, b"2026-11-29T01:51:07.475004617Z", '<a> "ö" \x1b[1m\n'.encode())

    assert abs(stored_bytes([entry]) - len(line)) <= 2
