"""Circuit breaker: while a service hangs, one caller probes it and all others are refused
immediately.

Otherwise each task that uses a hanging engine waits for its full timeout, and soon all threads of a
worker wait, also those for healthy engines. See docs/adr/0015.
"""

import threading
import time
from collections.abc import Callable

TRUSTED_S = 2.0
RETRIED_AFTER_S = 5.0
QUICK_S = 0.5


class Outage(Exception):
    """The service is considered down; no request was sent."""


class Circuit:
    """Circuit breaker for one service. Thread-safe; one per process.

    `probe` is a quick request that raises one of `faults` if there is no answer.
    """

    def __init__(self, probe: Callable[[], object], faults: tuple[type[Exception], ...]) -> None:
        self._probe = probe
        self._faults = faults
        self._one_probe = threading.Lock()
        self._answered_at = float("-inf")
        self._retried_at = float("-inf")
        self._fault = ""

    def check_answer(self) -> None:
        """Return if the service answered within TRUSTED_S, or answers a probe now. During an outage
        only one caller per RETRIED_AFTER_S probes, and waits as long as the probe does. A quick
        failure does not open the circuit: the next caller may probe at once. Raises Outage.
        """
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
        """Record that the service answered a request."""
        self._answered_at = time.monotonic()
        self._fault = ""

    def doubt(self) -> None:
        """Record that a call failed: the next caller probes first."""
        self._answered_at = float("-inf")

    def note_silence(self, why: str) -> None:
        """Open the circuit: the service did not answer."""
        self.doubt()
        self._retried_at = time.monotonic()
        self._fault = why or "no answer"

    def _is_trusted(self) -> bool:
        return time.monotonic() - self._answered_at < TRUSTED_S

    def _refuse_while_out(self) -> None:
        if self._fault and time.monotonic() - self._retried_at < RETRIED_AFTER_S:
            raise Outage(self._fault)
