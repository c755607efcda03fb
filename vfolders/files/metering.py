"""Lets a long call to a storage host write while another thread counts its bytes.

A call to a host must not use the database. So the thread of the call spends an allowance, and the
thread that asked for the call keeps the allowance ahead of it, in steps: it reserves the bytes
against the limits of the folder, and ends the call when a limit, a lost right or a cancellation
forbids more.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from threading import Condition
from typing import TypeVar

from common.errors import LimitExceeded
from vfolders import usage
from vfolders.models import VFolder

T = TypeVar("T")

STEP_BYTES = usage.STEP_BYTES
LOOK_S = 0.5


class Allowance:
    """Bytes that a call may write, and how much it has done."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._granted = self._wanted = 0
        self._is_over = False
        self._refusal: Exception | None = None
        self.spent_bytes = 0
        self.entries = 0

    def spend(self, amount: int) -> None:
        """Wait until `amount` bytes may be written; 0 counts an entry. Raises what ended the call."""
        with self._changed:
            self.entries += not amount
            while self._refusal is None and self.spent_bytes + amount > self._granted:
                self._wanted = self.spent_bytes + amount
                self._changed.notify_all()
                self._changed.wait()
            if self._refusal is not None:
                raise self._refusal
            self.spent_bytes += amount

    def missing(self, timeout_s: float) -> int:
        """Return the bytes that the call waits for, 0 if it does not wait for any within the time."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._wanted > self._granted, timeout_s)
            return max(0, self._wanted - self._granted)

    def grant(self, amount: int) -> None:
        with self._changed:
            self._granted += amount
            self._changed.notify_all()

    def close(self) -> None:
        """Let nobody wait any more: the call is over."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def refuse(self, error: Exception) -> None:
        with self._changed:
            self._refusal = error
            self._changed.notify_all()

    @property
    def unspent(self) -> int:
        return self._granted - self.spent_bytes

    @property
    def granted(self) -> int:
        return self._granted


def run_metered(
    folder: VFolder,
    call: Callable[[Callable[[int], None]], T],
    look: Callable[[Allowance], None] = lambda allowance: None,
) -> tuple[T, Allowance]:
    """Return what `call(spend)` returns, which runs in another thread and spends each piece before it
    is written, and how much it did. The bytes count for the folder, unless the call fails. `look` is
    called every LOOK_S at most while it runs, and ends it by an error.
    """
    allowance = Allowance()
    context = copy_context()
    with ThreadPoolExecutor(1, thread_name_prefix="metered") as pool:
        begun = pool.submit(context.run, call, allowance.spend)
        begun.add_done_callback(lambda _: allowance.close())
        try:
            _keep_ahead(folder, allowance, begun, look)
            result = begun.result()
        except BaseException as error:
            allowance.refuse(error if isinstance(error, Exception) else InterruptedError())
            begun.exception()
            usage.add_bytes(folder, -allowance.granted)
            raise
    if allowance.unspent:
        usage.add_bytes(folder, -allowance.unspent)
    return result, allowance


def _keep_ahead(
    folder: VFolder, allowance: Allowance, begun: Future[T], look: Callable[[Allowance], None]
) -> None:
    while not begun.done():
        missing = allowance.missing(LOOK_S)
        if missing and not begun.done():
            step = max(missing, STEP_BYTES)
            try:
                usage.reserve(folder, step)
            except LimitExceeded:
                step = missing
                usage.reserve(folder, step)
            allowance.grant(step)
        if not begun.done():
            look(allowance)
