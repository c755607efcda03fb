"""What hung a moment ago is not waited for again by everybody: one caller tries, the others are refused at once.

Without it each task that meets a hung engine waits for its whole time limit, and soon all threads of a worker wait, for
engines that are well too. See docs/adr/0015.
"""

import threading
import time
from collections.abc import Callable

TRUSTED_S = 2.0
RETRIED_AFTER_S = 5.0
QUICK_S = 0.5


class Outage(Exception):
    """It does not answer; nothing was asked of it, and nothing was waited for."""


class Circuit:
    """In front of one thing that may hang. Thread-safe; one for each process.

    `probe` is a quick question that raises one of `faults` where there is no answer.
    """

    def __init__(self, probe: Callable[[], object], faults: tuple[type[Exception], ...]) -> None:
        self._probe = probe
        self._faults = faults
        self._one_probe = threading.Lock()
        self._answered_at = float("-inf")
        self._retried_at = float("-inf")
        self._fault = ""

    def demand_answer(self) -> None:
        """Return if it answered within TRUSTED_S, or answers now. While it is out only one caller in RETRIED_AFTER_S
        asks, and waits as long as the probe does; who is refused quickly lost nothing, and may ask again at once.
        Raises Outage."""
        if self._is_trusted():
            return
        self._refuse_while_out()
        with self._one_probe:
            if self._is_trusted():
                return
            self._refuse_while_out()
            began_at = self._retried_at = time.monotonic()
            try:
                self._probe()
            except self._faults as fault:
                if time.monotonic() - began_at > QUICK_S:
                    self.note_silence(str(fault))
                raise Outage(str(fault) or "no answer") from fault
            self.note_answer()

    def note_answer(self) -> None:
        """It answered, to whatever was asked."""
        self._answered_at = time.monotonic()
        self._fault = ""

    def doubt(self) -> None:
        """A call failed: whoever calls next probes first."""
        self._answered_at = float("-inf")

    def note_silence(self, why: str) -> None:
        """It did not."""
        self.doubt()
        self._retried_at = time.monotonic()
        self._fault = why or "no answer"

    def _is_trusted(self) -> bool:
        return time.monotonic() - self._answered_at < TRUSTED_S

    def _refuse_while_out(self) -> None:
        if self._fault and time.monotonic() - self._retried_at < RETRIED_AFTER_S:
            raise Outage(self._fault)
