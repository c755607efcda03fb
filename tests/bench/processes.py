"""Start programs for a bench and read their memory."""

import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from portal.ops.paths import CHECKOUT
from tests.bench.memory import sizes_of, with_descendants
from tests.waiting import wait_until

STARTS_WITHIN_S = 60
ENDS_WITHIN_S = 10
ERRORS = CHECKOUT / "var" / "bench" / "errors.log"


@contextlib.contextmanager
def running(
    argv: Sequence[str], environment: Mapping[str, str], directory: Path = CHECKOUT
) -> Iterator[subprocess.Popen[str]]:
    """Run a program until the end of the context; its stderr goes to var/bench/errors.log."""
    ERRORS.parent.mkdir(parents=True, exist_ok=True)
    with ERRORS.open("a") as errors:
        process = subprocess.Popen(
            argv,
            env=dict(environment),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_up(process: subprocess.Popen[str], answers: Callable[[], bool]) -> None:
    """Wait until `answers()` is true. Raises SystemExit if the program ends before."""

    def is_up() -> bool:
        if process.poll() is not None:
            raise SystemExit(f"{process.args!r} ended at its start; see {ERRORS}.")
        return answers()

    wait_until(is_up, deadline_s=STARTS_WITHIN_S)


def is_listening(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


def rss_mib(pid: int) -> float:
    """Return the resident memory of a process and its children, in MiB."""
    return sum(sizes_of(each).get("Rss", 0.0) for each in with_descendants({pid}))


def processor_s(pid: int) -> float:
    """Return the processor time that a process and its children have used, in seconds."""
    ticks = 0
    for each in with_descendants({pid}):
        with contextlib.suppress(OSError):
            user, system = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[11:13]
            ticks += int(user) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK")
