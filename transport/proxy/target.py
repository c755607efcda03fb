"""Target address and timeouts of a forwarded request."""

from dataclasses import dataclass

from transport.proxy.route import DIRECT, Route


@dataclass(frozen=True, slots=True)
class Target:
    """One port of one container. `owner` names the container: the engine reuses freed addresses,
    and a pooled connection must never carry over from one session to another.
    """

    host: str
    port: int
    owner: str
    route: Route = DIRECT


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits in seconds. A stream has none once it has begun."""

    connect_s: float = 5.0
    response_head_s: float = 300.0
    idle_s: float = 15.0  # below the 60-75 s after which common servers close
