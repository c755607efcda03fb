"""Calls to a storage host that stalls."""

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Event
from time import perf_counter

import pytest

from common import clock
from tests.waiting import wait_until
from vfolders.storage import host_calls
from vfolders.storage.base import EntryMissing, OpenFile, StorageUnavailable
from vfolders.storage.files import COPY_S
from vfolders.storage.host_calls import HostCalls
from vfolders.uploads.receiving import SYNC_S

ids = count(-1, -1)


@pytest.fixture
def server() -> Iterator[Event]:
    """A server that answers when this is set."""
    answers = Event()
    yield answers
    answers.set()


def test_a_call_returns_or_raises_as_itself() -> None:
    calls = HostCalls(next(ids), "nas")

    def absent() -> None:
        raise EntryMissing("gone")

    assert calls.run(lambda: 7) == 7
    assert asyncio.run(calls.arun(lambda: 8)) == 8
    with pytest.raises(EntryMissing):
        calls.run(absent)
    assert not calls.is_stalled()


def test_a_stalled_host_costs_its_callers_a_deadline_and_the_next_ones_nothing(
    server: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_calls, "PLACES", 3)
    calls, other = HostCalls(next(ids), "nas"), HostCalls(next(ids), "disk")
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match="“nas” does not answer"):
            calls.run(server.wait, timeout_s=0.05)
    with pytest.raises(StorageUnavailable):
        asyncio.run(calls.arun(server.wait, timeout_s=0.05))

    started = perf_counter()
    with pytest.raises(StorageUnavailable):
        calls.run(server.wait)
    assert perf_counter() - started < 1
    assert calls.is_stalled()
    assert other.run(lambda: 7) == 7

    server.set()
    wait_until(lambda: not calls.is_stalled())
    assert calls.run(lambda: 7) == 7


def test_copies_take_no_place_of_other_long_calls(server: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_calls, "PLACES", 1)
    calls = HostCalls(next(ids), "nas")

    copy = calls._begin(server.wait, COPY_S)

    assert calls.run(lambda: 7, timeout_s=SYNC_S) == 7
    assert not copy.done()


def test_the_start_of_a_file_is_read_as_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with (tmp_path / "a").open("rb") as stream:
        opened = OpenFile(stream, 3, clock.now(), "", HostCalls(next(ids), "nas"))
        assert opened.read_start(2) == b"ab"
        monkeypatch.setattr(host_calls, "PLACES", 0)
        with pytest.raises(StorageUnavailable):
            opened.read_start(2)


def test_a_thread_that_cannot_start_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_calls, "PLACES", 1)
    calls = HostCalls(next(ids), "nas")

    def refuse(_thread: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(host_calls.Thread, "start", refuse)
        with pytest.raises(StorageUnavailable):
            calls.run(lambda: 7)
    assert calls.run(lambda: 7) == 7
