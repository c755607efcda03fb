"""The process of periodic tasks stops on a signal."""

import signal
from collections.abc import Callable
from threading import Event

import pytest

from portal.processes import periodic


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_periodic_process_sends_until_its_signal(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    handlers: dict[int, Callable[..., None]] = {}
    monkeypatch.setattr(periodic.signal, "signal", handlers.__setitem__)

    def run(send: Callable[..., None], is_over: Event, may_send: Callable[[], bool]) -> None:
        assert send is periodic.send
        assert not is_over.is_set()
        handlers[number](number, None)
        assert is_over.is_set()

    monkeypatch.setattr(periodic, "run", run)
    periodic.main()
    assert number in handlers
