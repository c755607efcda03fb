"""Ports: how an app uses what an app above it provides. Pure.

An app declares its ports in `<app>/ports.py`, each with the Protocol of its implementation.
`portal/wiring.py` connects all of them. An implementation is a function, a module or a value.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class PortError(RuntimeError):
    """A port has no implementation, or would get a second one."""


class Port(Generic[T]):
    """Port with one implementation; returns `default` until one is connected."""

    def __init__(self, name: str, default: T | None = None) -> None:
        self.name = name
        self._default = default
        self._implementation: T | None = None

    def connect(self, implementation: T) -> None:
        """Set the implementation, once. Raises PortError for another one."""
        if self._implementation is not None and self._implementation != implementation:
            raise PortError(f"The port {self.name} is connected to {self._implementation!r} already.")
        self._implementation = implementation

    def get(self) -> T:
        """Return the implementation. Raises PortError if there is none."""
        found = self._default if self._implementation is None else self._implementation
        if found is None:
            raise PortError(f"The port {self.name} is not connected; portal/wiring.py does that.")
        return found

    @contextmanager
    def replaced(self, implementation: T | None) -> Iterator[None]:
        """Use another implementation, or none, while the block runs: for tests."""
        before, self._implementation = self._implementation, implementation
        try:
            yield
        finally:
            self._implementation = before


class Ports(Generic[T]):
    """Port with one implementation or more, in the order in which they were connected."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._implementations: tuple[T, ...] = ()

    def connect(self, implementation: T) -> None:
        """Add an implementation. Connecting an equal one again has no effect."""
        if implementation not in self._implementations:
            self._implementations += (implementation,)

    def get(self) -> Sequence[T]:
        """Return all implementations. Raises PortError if there is none."""
        if not self._implementations:
            raise PortError(f"The port {self.name} is not connected; portal/wiring.py does that.")
        return self._implementations

    @contextmanager
    def replaced(self, *implementations: T) -> Iterator[None]:
        """Use these implementations while the block runs: for tests."""
        before, self._implementations = self._implementations, implementations
        try:
            yield
        finally:
            self._implementations = before


class Translator(Protocol):
    """Translates into the language of the reader, as `django.utils.translation` does."""

    def gettext(self, message: str) -> str: ...

    def ngettext(self, singular: str, plural: str, number: int) -> str: ...


class English:
    """Translator that leaves sentences as they are."""

    def gettext(self, message: str) -> str:
        return message

    def ngettext(self, singular: str, plural: str, number: int) -> str:
        return singular if number == 1 else plural


class Helpers(Protocol):
    def __call__(self, user_id: int, domain_id: int | None) -> Sequence[Mapping[str, object]]:
        """Return [{"name", "email"}] of people who can help a user who was refused something."""


translator: Port[Translator] = Port("common.translator", default=English())
helpers: Port[Helpers] = Port("common.helpers")
# Models of objects named by URL parameters, like {"session_id": "sessions_app.computesession"}.
address_parameters: Port[Mapping[str, str]] = Port("common.address_parameters")
