"""Signals that are heard at once.

Python calls a handler between two steps of the main thread. One that arrives just before a step that waits for the
network would be heard only when that is over, perhaps never. What the system itself writes down at its arrival is read
here by a thread.
"""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def heard(number: int, on_signal: Callable[[], None]) -> Iterator[None]:
    """Within this, call `on_signal` for each signal `number`, in a thread of its own. One that is ignored, as what runs
    in the background ignores Ctrl-C, stays ignored. For the main thread alone."""
    if signal.getsignal(number) is signal.SIG_IGN:
        yield
        return
    reading, waking = socket.socketpair()
    waking.setblocking(False)
    listener = threading.Thread(target=_listen, args=(reading, number, on_signal), daemon=True)
    listener.start()
    wakeup_before = signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    handler_before = signal.signal(number, lambda *_: None)  # without one nothing is written down
    try:
        yield
    finally:
        signal.signal(number, handler_before)
        signal.set_wakeup_fd(wakeup_before)
        waking.close()


def _listen(reading: socket.socket, number: int, on_signal: Callable[[], None]) -> None:
    with reading:
        while numbers := reading.recv(64):
            for each in numbers:
                if each == number:
                    on_signal()
