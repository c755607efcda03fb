"""Where a request goes and how long it may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One port of one container. `owner` names the container: an engine gives a freed address to the next
    container, and a kept connection must never outlive its owner into another session."""

    host: str
    port: int
    owner: str


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Bounds in seconds. A stream, once begun, has none."""

    connect_s: float = 5.0
    response_head_s: float = 300.0
    idle_s: float = 15.0  # below the 60-75 s after which common servers close
