"""The port to a container engine for the event loop: terminals and logs that flow. Pure, and the faults are those of
`base`."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime


class Shell(ABC):
    """One process with a terminal in a container. Not thread-safe; one reader."""

    @abstractmethod
    async def read(self) -> bytes:
        """The next bytes of output, b"" once it has ended. Not reading holds the process back."""

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """Types `data`; waits while the process does not take it."""

    @abstractmethod
    async def resize(self, columns: int, rows: int) -> None:
        """Changes the size of the terminal. After the end it does nothing."""

    @abstractmethod
    async def exit_code(self) -> int | None:
        """How it ended; None while it runs or where nobody knows."""

    @abstractmethod
    async def close(self) -> None:
        """Hangs up: the process and what it runs in the foreground end. May be repeated; never raises a
        fault."""


class AsyncRuntime(ABC):
    """One engine, for the event loop that made it."""

    @abstractmethod
    async def open_shell(
        self,
        name: str,
        *,
        argv: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        user: str = "",
        columns: int = 80,
        rows: int = 24,
    ) -> Shell:
        """A shell in the container: `argv`, or the best interactive shell it has. Raises ContainerGone."""

    @abstractmethod
    def follow_logs(
        self, name: str, *, tail: int | None = None, since: datetime | None = None
    ) -> AsyncGenerator[bytes, None]:
        """stdout and stderr as they come, after the last `tail` lines (None: all), until the container ends.
        Close the iterator (`aclose`) to leave early. Raises ContainerGone."""

    @abstractmethod
    async def close(self) -> None:
        """Lets connections go."""
