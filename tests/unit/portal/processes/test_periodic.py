"""Periodic tasks are sent at start and then by their period, whatever the wall clock does."""

from threading import Event, Thread

import pytest

from common.messaging.dispatch import TaskName
from portal.processes import periodic


def sent_within(rounds: int, monkeypatch: pytest.MonkeyPatch) -> list[TaskName]:
    """What `run` sends until the tick was sent so often; periods are a thousandth."""
    monkeypatch.setattr(
        periodic, "PERIODS_S", {name: period / 1000 for name, period in periodic.PERIODS_S.items()}
    )
    sent: list[TaskName] = []
    is_over = Event()

    def send(name: TaskName) -> None:
        sent.append(name)
        if sent.count(TaskName.TICK) >= rounds:
            is_over.set()

    thread = Thread(target=periodic.run, args=(send, is_over), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    return sent


def test_every_task_is_sent_at_once_and_again_by_its_period(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = sent_within(10, monkeypatch)
    assert set(sent) == set(periodic.PERIODS_S)
    assert sent.count(TaskName.RECONCILE_SESSIONS) >= sent.count(TaskName.HEARTBEAT_AGENTS)


def test_it_does_not_ask_what_time_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    instants = iter(range(2_000_000_000, 0, -3600))
    monkeypatch.setattr("time.time", lambda: next(instants))
    assert len(sent_within(5, monkeypatch)) > 5


def test_a_broker_that_is_away_does_not_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("no broker")

    monkeypatch.setattr(periodic.app, "send_task", refuse)
    periodic.send(TaskName.TICK)


def test_unconsumed_periodic_task_is_not_queued_again(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, object]] = []
    monkeypatch.setattr(periodic.app, "send_task", lambda name, **options: given.append(options))
    periodic.send(TaskName.RECONCILE_SESSIONS)
    assert given == [{"queue": "default", "expires": 4, "retry": False}]
