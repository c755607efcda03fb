"""Promises of every container runtime for measurements: Docker and the simulated one."""

from dataclasses import fields

import pytest

from agents.runtime.port import ContainerGone
from agents.runtime.usage import ContainerUsage
from tests.contract.conftest import Rig
from tests.waiting import wait_until

COUNTERS = [each.name for each in fields(ContainerUsage) if each.name not in ("at", "mem_bytes")]


def test_usage_counts_up_by_the_engines_clock_and_memory_stays_below_its_limit(rig: Rig) -> None:
    network = rig.network()
    rig.runtime.ensure_network(network)
    name = rig.running(network=network.name, mem_bytes=64 * 2**20)

    first = rig.measure(name)

    def later() -> ContainerUsage | None:
        usage = rig.measure(name)
        return usage if usage.at > first.at else None

    second: ContainerUsage = wait_until(later)  # type: ignore[assignment]
    assert first.at.tzinfo is not None
    for counter in COUNTERS:
        before, after = getattr(first, counter), getattr(second, counter)
        assert before is None or after is None or 0 <= before <= after, counter
    assert second.cpu_ns is not None
    assert second.net_received_bytes is not None
    assert second.mem_bytes is not None
    assert 0 < second.mem_bytes <= 64 * 2**20
    rig.runtime.remove_container(name)
    rig.runtime.remove_network(network.name)


def test_container_that_does_not_run_has_no_usage(rig: Rig) -> None:
    with pytest.raises(ContainerGone):
        rig.measure(rig.name())
    spec = rig.spec()
    rig.runtime.ensure_container(spec)
    with pytest.raises(ContainerGone):
        rig.measure(spec.name)
    rig.runtime.remove_container(spec.name)
