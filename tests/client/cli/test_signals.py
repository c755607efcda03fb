"""Ctrl-C is handled whatever the main thread is doing."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from berth.cli.signals import handle_signal

PATIENCE_S = 30
NUMBER = signal.SIGUSR1


@pytest.fixture
def deaf_main_thread() -> Iterator[None]:
    """Signals reach another thread, so that nothing wakes this one up to run a handler."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {NUMBER})
    yield
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {NUMBER})


def test_a_signal_is_heard_while_the_main_thread_waits(request: pytest.FixtureRequest) -> None:
    is_heard, is_over = threading.Event(), threading.Event()
    with handle_signal(NUMBER, is_heard.set):
        threading.Thread(target=is_over.wait).start()  # somebody to receive it
        request.getfixturevalue("deaf_main_thread")
        os.kill(os.getpid(), NUMBER)
        assert is_heard.wait(PATIENCE_S)
        is_over.set()


def test_each_is_heard_and_afterwards_all_is_as_before() -> None:
    times = threading.Semaphore(0)
    before = signal.signal(NUMBER, signal.SIG_DFL)
    try:
        with handle_signal(NUMBER, times.release):
            for _ in range(2):
                os.kill(os.getpid(), NUMBER)
                assert times.acquire(timeout=PATIENCE_S)
        assert signal.getsignal(NUMBER) is signal.SIG_DFL
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.signal(NUMBER, before)


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(NUMBER, signal.SIG_IGN)
    try:
        with handle_signal(NUMBER, lambda: pytest.fail("heard")):
            os.kill(os.getpid(), NUMBER)
            assert signal.getsignal(NUMBER) is signal.SIG_IGN
    finally:
        signal.signal(NUMBER, before)
