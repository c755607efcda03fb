"""A service that does not answer in time holds one thread; one that answers again gets more and more."""

from contextlib import ExitStack

from common.resilience.call_window import CallWindow


def calls_at_once(window: CallWindow, wanted: int) -> int:
    with ExitStack() as calls:
        return sum(calls.enter_context(window.call()) for _ in range(wanted))


def test_window_closes_with_a_timeout_and_opens_with_answers() -> None:
    window = CallWindow()
    assert calls_at_once(window, 100) == 100
    window.note_timeout()
    assert calls_at_once(window, 100) == 1
    window.note_answer()
    assert calls_at_once(window, 100) == 2
    for _ in range(10):
        window.note_answer()
    assert calls_at_once(window, 100) == 100
