"""Handle signals at once, even while the main thread waits for the network.

Python runs a handler between two steps of the main thread, so a signal that arrives just before a
blocking call is handled only after it. Here a thread reads the wake-up file descriptor, to which
the interpreter writes at the signal's arrival.
"""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def handle_signal(number: int, on_signal: Callable[[], None]) -> Iterator[None]:
    """Call `on_signal` for each signal `number` within the context, in a separate thread.

    A signal that is ignored stays ignored, like Ctrl-C of background jobs. Main thread only.
    """
    if signal.getsignal(number) is signal.SIG_IGN:
        yield
        return
    reading, waking = socket.socketpair()
    waking.setblocking(False)
    listener = threading.Thread(target=_listen, args=(reading, number, on_signal), daemon=True)
    listener.start()
    wakeup_before = signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    # Without a handler nothing is written to the descriptor.
    handler_before = signal.signal(number, lambda *_: None)
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
