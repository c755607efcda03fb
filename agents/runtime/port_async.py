"""Port to a container engine for the event loop: processes, files, measurements and streamed logs.
Pure; raises the faults of `port`.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from agents.runtime.docker.log_entries import START, LogPart, LogPosition
from agents.runtime.port_files import ContainerFiles
from agents.runtime.usage import ContainerUsage

PROCESS_OWNER_VARIABLE = "BERTH_KEEPER"
"""Environment variable with the process owner (`ProcessSpec.owner`), by which `end_owned_processes`
finds the process after its connection is lost.
"""


class Channel(IntEnum):
    """Standard stream of a process, with the engine's numbers."""

    INPUT = 0
    OUTPUT = 1
    ERRORS = 2


MEASURE_TIMEOUT_S = 5.0

SIGNALS = ("HUP", "INT", "QUIT", "TERM", "KILL", "USR1", "USR2", "CONT", "STOP", "TSTP", "WINCH")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """A process to run beside the container's main process.

    Without `argv` it is the best interactive shell available; `argv` itself is not interpreted by a
    shell. An empty `working_dir` or `user` means the container's own. `owner` is the process
    owner, for `end_owned_processes`.
    """

    argv: tuple[str, ...] = ()
    has_terminal: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = ""
    user: str = ""
    columns: int = 80
    rows: int = 24
    owner: str = ""


class Process(ABC):
    """One process in a container. Not thread-safe; one reader."""

    @abstractmethod
    async def read(self) -> tuple[Channel, bytes]:
        """Return the next output; b"" after the process has ended. With a terminal everything is
        OUTPUT. The process blocks while its output is not read.
        """

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send input without waiting; see `drain`. Does nothing after the process has ended."""

    @property
    @abstractmethod
    def unwritten_bytes(self) -> int:
        """Bytes of input that are buffered on this side."""

    @abstractmethod
    async def drain(self) -> None:
        """Wait until the input buffer on this side is nearly empty."""

    @abstractmethod
    async def end_input(self) -> None:
        """Close the process's input after everything written so far. No effect with a terminal."""

    @abstractmethod
    async def resize(self, columns: int, rows: int) -> None:
        """Set the terminal size; the most recent call wins.
        Does nothing after the process has ended.
        """

    @abstractmethod
    async def signal(self, name: str) -> None:
        """Send one of SIGNALS to the process and its group.
        Does nothing after the process has ended.
        """

    @abstractmethod
    async def exit_code(self) -> int | None:
        """Return the exit code; None while the process runs or if it is unknown."""

    @abstractmethod
    async def close(self) -> bool:
        """Hang up, which ends the process and, without a terminal, its process group. Idempotent;
        never raises a fault.

        Returns False if the engine could not be reached; then `end_owned_processes` must still be called.
        """

    @abstractmethod
    def leave(self) -> None:
        """Disconnect from the process and let it run on."""


class AsyncRuntime(ABC):
    """One engine, for the event loop that created it."""

    @abstractmethod
    async def open_process(self, name: str, spec: ProcessSpec) -> Process:
        """Start a process in the container.
        A missing program ends with 127. Raises ContainerGone, also for a container without a shell.
        """

    @abstractmethod
    async def end_owned_processes(self, name: str, owner: str) -> None:
        """End all processes in the container whose owner begins with `owner`.
        Succeeds if the container is absent or stopped.
        """

    @abstractmethod
    async def running_containers(self, labels: Mapping[str, str]) -> list[str]:
        """Return the names of running containers that carry all these labels."""

    @abstractmethod
    async def measure_container(self, name: str) -> ContainerUsage:
        """Return the resource usage of a running container so far. Raises ContainerGone, and
        RuntimeUnavailable without an answer within MEASURE_TIMEOUT_S.
        """

    @abstractmethod
    def files(self, name: str) -> ContainerFiles:
        """Return access to the files of a container, without calling the engine yet."""

    @abstractmethod
    def follow_logs(
        self, name: str, position: LogPosition = START, *, has_previews: bool = False
    ) -> AsyncGenerator[LogPart, None]:
        """Yield stdout and stderr after `position`, each entry once and in the engine's order,
        until the container has ended and its whole log was yielded.

        Entries that the engine dropped before they could be read are reported as a gap of the next
        part. With previews, text after a carriage return is yielded before its line ends, as far as
        it is available. Close the iterator (`aclose`) to stop early. Raises ContainerGone.
        """

    @abstractmethod
    async def read_last_line(self, name: str) -> bytes:
        """Return the last complete line that the container wrote, of at most 48 KiB and without its
        end; b"" if there is none. Raises ContainerGone if the container is absent, and
        RuntimeUnavailable without an answer within MEASURE_TIMEOUT_S.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""
