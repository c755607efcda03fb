"""Engines with a fault, named for it. Each keeps the promises of the port but for its fault."""

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
    """Answers until it is lost, then again once it is found; what ran there runs on."""

    is_lost = False

    def check_answers(self) -> None:
        if self.is_lost:
            raise RuntimeUnavailable("Engine does not answer: lost")
        super().check_answers()


class SlowRuntime(SimulatedRuntime):
    """Each call waits until `go` is set; `is_waiting` tells that one does."""

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
    """Has no subnet and no disk left."""

    def ensure_network(self, spec: NetworkSpec) -> None:
        raise OutOfCapacity(f"No free /{spec.prefix} subnet left in {spec.pool}.")

    def ensure_container(self, spec: ContainerSpec) -> ContainerState:
        raise OutOfCapacity("no space left on device")


class NakedRuntime(SimulatedRuntime):
    """Its machine takes no firewall rules."""

    def run_helper(self, spec: HelperSpec, *, timeout_s: int = 30) -> ProcessResult:
        super().run_helper(spec, timeout_s=timeout_s)
        return ProcessResult(exit_code=1, output=b"netlink: Error: Operation not supported\n")
