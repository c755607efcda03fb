"""Logs stored after their container was removed."""

import tracemalloc

import pytest

from agents.runtime.docker.log_entries import START, LogEntry, LogTail
from sessions_app.container_io.kept_logs import find_stored_log, store_log
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db


def test_stored_log_is_read_in_little_memory() -> None:
    kernel = make_place().run().kernels.get()
    entries = tuple(
        LogEntry(1, b"2026-01-01T00:00:00.%06dZ" % number, b"%099d\n" % number) for number in range(50_000)
    )
    store_log(kernel, LogTail(entries, is_cut=True))

    tracemalloc.start()
    kept = find_stored_log(kernel)
    assert kept is not None
    parts = kept.parts_after(START)
    first = next(parts)
    sizes = [len(first.text), *(len(part.text) for part in parts)]
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert sum(sizes) == 5_000_000
    assert peak_bytes < 2_500_000
    assert first.gap is not None
    assert first.gap.until == entries[0].at


def test_reader_continues_in_the_stored_log() -> None:
    kernel = make_place().run().kernels.get()
    entries = tuple(LogEntry(1, b"T%06d" % number, b"%099d\n" % number) for number in range(2000))
    store_log(kernel, LogTail(entries))
    kept = find_stored_log(kernel)

    assert kept is not None
    parts = list(kept.parts_after(START.after(entries[:500])))
    assert b"".join(part.text for part in parts) == b"".join(entry.text for entry in entries[500:])
    assert max(len(part.text) for part in parts) < 100_000
