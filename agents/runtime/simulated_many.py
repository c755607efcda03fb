"""Many containers of many simulated engines by one request to Redis: what a worker would ask each of them, one after the other.

Each is started or removed as by the calls of the port; only engines whose shelves are in Redis are asked so.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from redis.client import Pipeline

from agents.runtime.base import (
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    NetworkSpec,
    RuntimeUnavailable,
)
from agents.runtime.simulated import SimulatedRuntime
from agents.runtime.simulated_shelf import Container, InRedis, Network, ask, output_in
from agents.runtime.wire import free_subnets
from common.redis import client

Thing = TypeVar("Thing")
Asked = TypeVar("Asked", "Start", "Removal")


@dataclass(frozen=True, slots=True)
class Start:
    """A container with its network and volume, none of which is there yet."""

    runtime: SimulatedRuntime
    network: NetworkSpec
    volume: str
    spec: ContainerSpec


@dataclass(frozen=True, slots=True)
class Removal:
    runtime: SimulatedRuntime
    network: str
    volume: str
    container: str


def start_many(starts: Sequence[Start]) -> dict[str, ContainerState]:
    """By name, those that run now: engines that are silent start none. Takes as long as the slowest. Raises
    RuntimeUnavailable."""
    answering = list(_answering(starts))
    time.sleep(max((each.runtime.conduct.start_s for each in answering), default=0.0))
    states = {}
    with client().pipeline(transaction=False) as pipeline:
        for start in answering:
            container, network = _started(start)
            shelf = start.runtime.shelf
            _put(pipeline, shelf.networks, start.network.name, network)
            _put(pipeline, shelf.volumes, start.volume, dict(start.spec.labels))
            _put(pipeline, shelf.containers, start.spec.name, container)
            states[start.spec.name] = container.state
        ask(pipeline.execute)
    return states


def read_outputs(removals: Sequence[Removal]) -> dict[str, bytes | None]:
    """What these containers have written, by name; None of one that is gone. Those of silent engines are left out. Raises
    RuntimeUnavailable."""
    answering = list(_answering(removals))
    with client().pipeline(transaction=False) as pipeline:
        for removal in answering:
            pipeline.hget(_in_redis(removal.runtime.shelf.containers).key, removal.container)
        answers = ask(pipeline.execute)
    return {
        removal.container: output_in(text) if text else None
        for removal, text in zip(answering, answers, strict=True)
    }


def remove_many(removals: Sequence[Removal]) -> None:
    """The containers are gone, with their volumes and networks. Raises RuntimeUnavailable."""
    gone: dict[str, list[str]] = defaultdict(list)
    for removal in removals:
        shelf = removal.runtime.shelf
        gone[_in_redis(shelf.containers).key].append(removal.container)
        gone[_in_redis(shelf.volumes).key].append(removal.volume)
        gone[_in_redis(shelf.networks).key].append(removal.network)
    with client().pipeline(transaction=False) as pipeline:
        for key, names in gone.items():
            pipeline.hdel(key, *names)
        ask(pipeline.execute)


def _answering(asked: Sequence[Asked]) -> Iterator[Asked]:
    return (each for each in asked if each.runtime.answers)


def _started(start: Start) -> tuple[Container, Network]:
    spec, now = start.spec, datetime.now(UTC)
    subnet = next(free_subnets(start.network.pool, start.network.prefix, (), seed=start.network.name))
    network = Network(dict(start.network.labels), str(subnet))
    network.used.append(address := str(subnet.network_address + 2))  # as `free_address` would say
    state = ContainerState(
        name=spec.name,
        container_id=f"{spec.name}-id",
        labels=dict(spec.labels),
        status=ContainerStatus.RUNNING,
        addresses={start.network.name: address},
        started_at=now,
    )
    ends_at, ends_with = start.runtime.conduct.end_of(spec.name, now.timestamp())
    if spec.network != start.network.name:
        spec = replace(spec, network=start.network.name)
    return Container(spec, state, ends_at=ends_at, ends_with=ends_with), network


def _put(pipeline: Pipeline, mapping: MutableMapping[str, Thing], name: str, thing: Thing) -> None:
    place = _in_redis(mapping)
    pipeline.hsetnx(place.key, name, place.encoded(thing))


def _in_redis(mapping: MutableMapping[str, Thing]) -> InRedis[Thing]:
    if not isinstance(mapping, InRedis):
        raise RuntimeUnavailable("What this engine has is in the memory of one process.")
    return mapping
