"""Periodic tasks are sent by one of several beats, and by another as soon as it is gone."""

import os
from collections.abc import Iterator
from threading import Event, Thread

import psycopg
import pytest
from django.db import connection

from common.messaging.dispatch import TaskName
from portal.processes import periodic
from portal.processes.beat_lock import BeatLock
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def url() -> str:
    return f"{os.environ['DATABASE_URL'].rpartition('/')[0]}/{connection.settings_dict['NAME']}"


class Beat:
    """A beat whose periods are a thousandth; notes what it sends."""

    def __init__(self, url: str) -> None:
        self.lock = BeatLock(url)
        self.sent: list[TaskName] = []
        self._is_over = Event()
        self._thread = Thread(target=periodic.run, args=(self.sent.append, self._is_over, self.lock.is_held))
        self._thread.start()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(30)
        self.lock.close()


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Beat]]:
    monkeypatch.setattr(
        periodic, "PERIODS_S", {name: period / 1000 for name, period in periodic.PERIODS_S.items()}
    )
    monkeypatch.setattr(periodic, "STANDBY_S", 0.01)
    begun: list[Beat] = []
    yield begun
    for beat in begun:
        beat.end()


def test_one_of_two_beats_sends_until_it_is_gone(beats: list[Beat], url: str) -> None:
    first = Beat(url)
    beats.append(first)
    wait_until(lambda: first.sent)
    second = Beat(url)
    beats.append(second)
    before = len(first.sent)
    wait_until(lambda: len(first.sent) > before + 100)
    assert second.sent == []

    first.end()
    wait_until(lambda: set(second.sent) == set(periodic.PERIODS_S))


def test_a_beat_whose_connection_is_lost_sends_nothing_until_it_has_the_lock_again(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr("portal.processes.beat_lock.CHECKED_EVERY_S", 0)
    lock, other = BeatLock(url), BeatLock(url)
    assert lock.is_held()
    assert not other.is_held()
    with psycopg.connect(url, autocommit=True) as administrator:
        administrator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted "
            "AND objsubid = 1 AND pid != pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
    wait_until(other.is_held)
    assert not lock.is_held()
    other.close()
    wait_until(lock.is_held)
    lock.close()
