"""State of a simulated engine (networks, volumes, containers) and the behaviour of its containers.

The state is in the memory of one process, or in Redis: one hash per kind of object with one field
per object, so that any process of a portal can use any simulated engine and a crash leaves no
partial object. There are no locks: all calls for one session are made by the holder of its work
lock.
"""

import json
import random
import time
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
    ValuesView,
)
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from ipaddress import IPv4Network
from itertools import islice
from typing import Any, Generic, TypeVar

import redis

from agents.runtime.port import (
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    MountSpec,
    NetworkMissing,
    RuntimeUnavailable,
)
from agents.runtime.usage import ContainerUsage
from common.messaging.redis import client

T = TypeVar("T")

_REQUIRED = object()
SILENT_FOR_S = 600
"""Seconds that a lost machine stays silent: longer than the grace period after which its sessions
end.
"""


@dataclass(slots=True)
class Network:
    """A network and the addresses that containers use in it."""

    labels: Mapping[str, str]
    subnet: str
    used: list[str] = field(default_factory=list)

    def free_address(self) -> str:
        """Return the first free address; the first host address is the engine's own."""
        hosts = map(str, islice(IPv4Network(self.subnet).hosts(), 1, None))
        return next(host for host in hosts if host not in self.used)


@dataclass(slots=True)
class Container:
    """A simulated container.
    Its program ends by itself at `ends_at` (seconds since 1970) with exit code `ends_with`.
    """

    spec: ContainerSpec
    state: ContainerState
    output: bytes = b""
    ends_at: float | None = None
    ends_with: int = 0
    memory_kills: list[datetime] = field(default_factory=list)
    # Not stored in Redis: only tests within one process read these.
    processes: list[tuple[str, ...]] = field(default_factory=list)
    usage: ContainerUsage | None = None


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Behaviour of containers and machines.

    Containers take `start_s` to start, run for `run_s` on average (0: until stopped), and a share
    `fail_rate` of them ends with exit code 1. `lose_rate` is the share of time in which a machine
    does not answer.
    """

    start_s: float = 0.0
    run_s: float = 0.0
    fail_rate: float = 0.0
    lose_rate: float = 0.0

    def end_of(self, name: str, started_at: float) -> tuple[float | None, int]:
        """Return the time (seconds since 1970) at which the container ends, or None, and its exit
        code. Deterministic per container name, so all processes agree.
        """
        chance = random.Random(name)  # noqa: S311 -- a simulation, not a secret
        code = int(chance.random() < self.fail_rate)
        return (started_at + chance.expovariate(1 / self.run_s) if self.run_s else None), code

    def is_silent(self, machine: str, at: float) -> bool:
        if not self.lose_rate:
            return False
        chance = random.Random(machine)  # noqa: S311
        spell = int((at + chance.random() * SILENT_FOR_S) // SILENT_FOR_S)
        return random.Random(f"{machine} {spell}").random() < self.lose_rate  # noqa: S311


class RedisMapping(MutableMapping[str, T], Generic[T]):
    """Mapping that stores each value as JSON in a field of one Redis hash, shared by all processes.
    Raises RuntimeUnavailable if Redis does not answer.
    """

    def __init__(self, key: str, encode: Callable[[T], Any], decode: Callable[[Any], T]) -> None:
        self.key = key
        self._encode, self._decode = encode, decode

    def __getitem__(self, name: str) -> T:
        text = _call_redis(lambda: client().hget(self.key, name))
        if text is None:
            raise KeyError(name)
        return self.decoded(text)

    def __setitem__(self, name: str, thing: T) -> None:
        _call_redis(lambda: client().hset(self.key, name, self.encoded(thing)))

    def __delitem__(self, name: str) -> None:
        if not _call_redis(lambda: client().hdel(self.key, name)):
            raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter([name.decode() for name in _call_redis(lambda: client().hkeys(self.key))])

    def __len__(self) -> int:
        return int(_call_redis(lambda: client().hlen(self.key)))

    def items(self) -> ItemsView[str, T]:
        """Read all entries with one request, so that concurrent removals raise no KeyError."""
        found = _call_redis(lambda: client().hgetall(self.key))
        return {name.decode(): self.decoded(text) for name, text in found.items()}.items()

    def values(self) -> ValuesView[T]:
        return dict(self.items()).values()

    def setdefault(self, name: str, default: T = None) -> T:  # type: ignore[assignment]
        """Set with one atomic request, so that exactly one of several concurrent callers sets the
        value.
        """
        _call_redis(lambda: client().hsetnx(self.key, name, self.encoded(default)))
        return self[name]

    def pop(self, name: str, default: Any = _REQUIRED) -> Any:
        """Remove and return a value; of several concurrent callers exactly one gets it."""
        thing = self.get(name)
        if thing is not None and _call_redis(lambda: client().hdel(self.key, name)):
            return thing
        if default is _REQUIRED:
            raise KeyError(name)
        return default

    def decoded(self, text: bytes) -> T:
        return self._decode(json.loads(text))

    def encoded(self, thing: T) -> str:
        return json.dumps(self._encode(thing))


@dataclass(slots=True)
class EngineState:
    """Networks, volumes ({name: labels}) and containers of one engine."""

    networks: MutableMapping[str, Network] = field(default_factory=dict)
    volumes: MutableMapping[str, Mapping[str, str]] = field(default_factory=dict)
    containers: MutableMapping[str, Container] = field(default_factory=dict)

    def join(self, name: str) -> dict[str, str]:
        """Assign an address in this network and return {network: address}; {} without a network.
        Raises NetworkMissing.
        """
        if not name:
            return {}
        network = self.networks.get(name)
        if network is None:
            raise NetworkMissing(f"network {name} not found")
        address = network.free_address()
        network.used.append(address)
        self.networks[name] = network
        return {name: address}

    def leave(self, container: Container) -> None:
        """Release the container's addresses."""
        for name, address in container.state.addresses.items():
            network = self.networks.get(name)
            if network is not None and address in network.used:
                network.used.remove(address)
                self.networks[name] = network


def shared_state(engine: str) -> EngineState:
    """Return the state of this engine in Redis. `engine` names the installation and the machine."""
    key = f"berth:simulated:{engine}"
    return EngineState(
        RedisMapping(f"{key}:networks", _encode_network, _decode_network),
        RedisMapping(f"{key}:volumes", dict, dict),
        RedisMapping(f"{key}:containers", _encode_container, _decode_container),
    )


def clear_shared_states(engine: str) -> int:
    """Remove the state of all engines whose name begins with `engine`; return the number of keys
    removed.
    """
    keys = list(client().scan_iter(match=f"berth:simulated:{engine}*", count=1000))
    _remove_keys(keys)
    return len(keys)


def remove_shared_states(engines: Iterable[str]) -> None:
    """Remove the state of exactly these engines."""
    parts = [each.name for each in fields(EngineState)]
    _remove_keys([f"berth:simulated:{engine}:{part}" for engine in engines for part in parts])


def _remove_keys(keys: Sequence[Any]) -> None:
    for first in range(0, len(keys), 1000):
        client().delete(*keys[first : first + 1000])


def is_over(container: Container) -> bool:
    """True if the program has ended by itself and this is not recorded yet."""
    return (
        container.ends_at is not None
        and container.state.status is ContainerStatus.RUNNING
        and container.ends_at <= time.time()
    )


def state_now(container: Container) -> ContainerState:
    """Return the present state, ended if the program has ended by itself."""
    if not is_over(container):
        return container.state
    return ended(container.state, container.ends_with, datetime.fromtimestamp(container.ends_at or 0, UTC))


def ended(
    state: ContainerState, exit_code: int, at: datetime, was_oom_killed: bool = False
) -> ContainerState:
    return replace(
        state,
        status=ContainerStatus.EXITED,
        exit_code=exit_code,
        was_oom_killed=was_oom_killed,
        addresses={},
        finished_at=at,
    )


def _call_redis(request: Callable[[], Any]) -> Any:
    """Return the answer of Redis. Raises RuntimeUnavailable."""
    try:
        return request()
    except redis.RedisError as error:
        raise RuntimeUnavailable(f"The simulated engine's memory does not answer: {error}") from error


def _encode_network(network: Network) -> dict[str, Any]:
    return {"labels": dict(network.labels), "subnet": network.subnet, "used": network.used}


def _decode_network(data: dict[str, Any]) -> Network:
    return Network(data["labels"], data["subnet"], data.get("used", []))


def _encode_container(container: Container) -> dict[str, Any]:
    spec, state = container.spec, container.state
    return {
        "name": spec.name,
        "image": spec.image,
        "labels": dict(spec.labels),
        "network": spec.network,
        "cpu": spec.cpu_milli,
        "mem": spec.mem_bytes,
        "volumes": [mount.source for mount in spec.mounts if mount.kind == "volume" and mount.source],
        "id": state.container_id,
        "status": state.status.value,
        "code": state.exit_code,
        "oom": state.was_oom_killed,
        "at": dict(state.addresses),
        "since": state.started_at and state.started_at.timestamp(),
        "until": state.finished_at and state.finished_at.timestamp(),
        "out": container.output.decode("latin-1"),
        "ends": [container.ends_at, container.ends_with],
        "kills": [at.timestamp() for at in container.memory_kills],
    }


def _decode_container(data: dict[str, Any]) -> Container:
    spec = ContainerSpec(
        name=data["name"],
        image=data["image"],
        labels=data["labels"],
        network=data["network"],
        cpu_milli=data["cpu"],
        mem_bytes=data["mem"],
        mounts=tuple(MountSpec("volume", "", source) for source in data["volumes"]),
    )
    state = ContainerState(
        name=spec.name,
        container_id=data["id"],
        labels=spec.labels,
        status=ContainerStatus(data["status"]),
        exit_code=data["code"],
        was_oom_killed=data["oom"],
        addresses=data["at"],
        started_at=_instant(data["since"]),
        finished_at=_instant(data["until"]),
    )
    kills = [datetime.fromtimestamp(at, UTC) for at in data["kills"]]
    ends_at, ends_with = data["ends"]
    return Container(spec, state, data["out"].encode("latin-1"), ends_at, ends_with, kills)


def _instant(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
