"""The port to a container engine for the event loop: processes and logs that flow. Pure, and the faults are those of
`base`."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from agents.runtime.docker.log_entries import START, LogPart, LogPosition
from agents.runtime.port_files import ContainerFiles
from agents.runtime.usage import ContainerUsage

KEEPER_VARIABLE = "BERTH_KEEPER"
"""In the environment of a process, its `keeper`: how it is found again once nobody holds it any more."""


class Channel(IntEnum):
    """Where bytes of a process belong; numbered as the engine does."""

    INPUT = 0
    OUTPUT = 1
    ERRORS = 2


MEASURE_TIMEOUT_S = 5.0

SIGNALS = ("HUP", "INT", "QUIT", "TERM", "KILL", "USR1", "USR2", "CONT", "STOP", "TSTP", "WINCH")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """What is run beside the main process of a container. Without `argv` it is the best interactive shell there is; no
    shell reads `argv`. An empty `working_dir` or `user` is the container's own. `keeper` names who ends it."""

    argv: tuple[str, ...] = ()
    has_terminal: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = ""
    user: str = ""
    columns: int = 80
    rows: int = 24
    keeper: str = ""


class Process(ABC):
    """One process in a container. Not thread-safe; one reader."""

    @abstractmethod
    async def read(self) -> tuple[Channel, bytes]:
        """What it says next; no bytes once it has ended. With a terminal all is OUTPUT. Not reading holds it back."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Gives it input, without waiting; `drain` waits. After its end it does nothing."""

    @property
    @abstractmethod
    def unwritten_bytes(self) -> int:
        """Input that still waits on our side."""

    @abstractmethod
    async def drain(self) -> None:
        """Waits until little of the input waits on our side."""

    @abstractmethod
    async def end_input(self) -> None:
        """Tells it that no more input comes, after what was written. With a terminal it means nothing."""

    @abstractmethod
    async def resize(self, columns: int, rows: int) -> None:
        """Changes the size of the terminal; the newest one stays. After the end it does nothing."""

    @abstractmethod
    async def signal(self, name: str) -> None:
        """Sends one of SIGNALS to it and its group. After the end it does nothing."""

    @abstractmethod
    async def exit_code(self) -> int | None:
        """How it ended; None while it runs or where nobody knows."""

    @abstractmethod
    async def close(self) -> bool:
        """Hangs up: it ends, and without a terminal so does its group. False if the engine could not be told: then
        `end_kept` is still to be called. May be repeated; never raises a fault."""

    @abstractmethod
    def leave(self) -> None:
        """Lets it run on, unheard: nobody reads, writes or ends it from here any more."""


class AsyncRuntime(ABC):
    """One engine, for the event loop that made it."""

    @abstractmethod
    async def open_process(self, name: str, spec: ProcessSpec) -> Process:
        """Starts a process in the container. A program that is not there ends with 127. Raises ContainerGone, also for
        a container without any shell."""

    @abstractmethod
    async def end_kept(self, name: str, keeper: str) -> None:
        """Ends all processes in the container whose keeper begins so. An absent or stopped container is a success."""

    @abstractmethod
    async def running_containers(self, labels: Mapping[str, str]) -> list[str]:
        """Names of the containers that run and carry all these labels."""

    @abstractmethod
    async def measure_container(self, name: str) -> ContainerUsage:
        """Return what a running container has used so far. Raises ContainerGone, and RuntimeUnavailable where there is no
        answer within MEASURE_TIMEOUT_S."""

    @abstractmethod
    def files(self, name: str) -> ContainerFiles:
        """The files of a container; asks nothing yet."""

    @abstractmethod
    def follow_logs(
        self, name: str, position: LogPosition = START, *, has_previews: bool = False
    ) -> AsyncGenerator[LogPart, None]:
        """Yield what the container writes to stdout and stderr after `position`, each entry once and in the engine's order,
        until it has ended and all that it wrote was yielded. What the engine dropped before it could be read is told as a
        gap of the part that follows. With previews, what is written after a carriage return is shown before its line ends, as
        far as it can be seen. Close the iterator (`aclose`) to leave early. Raises ContainerGone."""

    @abstractmethod
    async def close(self) -> None:
        """Lets connections go."""
