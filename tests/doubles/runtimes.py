"""Engines with one fault each; they keep all other promises of the port."""

import threading

from agents.runtime.port import (
    ContainerSpec,
    ContainerState,
    HelperSpec,
    NetworkSpec,
    OutOfCapacity,
    ProcessResult,
    RuntimeUnavailable,
)
from agents.runtime.simulated.runtime import SimulatedRuntime


class LostRuntime(SimulatedRuntime):
    """Engine that is unreachable until it is found again; its containers run on."""

    is_lost = False

    def check_answers(self) -> None:
        if self.is_lost:
            raise RuntimeUnavailable("Engine does not answer: lost")
        super().check_answers()


class SlowRuntime(SimulatedRuntime):
    """Engine whose calls block until `go` is set; `is_waiting` is set when one blocks."""

    def __init__(self, *, images: tuple[str, ...] = (), patience_s: float = 10) -> None:
        super().__init__(name="slow", images=images)
        self.go = threading.Event()
        self.is_waiting = threading.Event()
        self._patience_s = patience_s

    def _answer(self) -> None:
        self.is_waiting.set()
        if not self.go.wait(self._patience_s):
            raise RuntimeUnavailable(f"Engine does not answer: nothing within {self._patience_s} s")


class FullRuntime(SimulatedRuntime):
    """Engine without a free subnet or disk space."""

    def ensure_network(self, spec: NetworkSpec) -> None:
        raise OutOfCapacity(f"No free /{spec.prefix} subnet left in {spec.pool}.")

    def ensure_container(self, spec: ContainerSpec) -> ContainerState:
        raise OutOfCapacity("no space left on device")


class NakedRuntime(SimulatedRuntime):
    """Engine on a machine that accepts no firewall rules."""

    def run_helper(self, spec: HelperSpec, *, timeout_s: int = 30) -> ProcessResult:
        super().run_helper(spec, timeout_s=timeout_s)
        return ProcessResult(exit_code=1, output=b"netlink: Error: Operation not supported\n")
