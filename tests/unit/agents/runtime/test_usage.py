"""Usage reports of engines, with any field missing."""

from datetime import UTC, datetime
from typing import Any

import pytest

from agents.runtime.usage import parse_usage

READ = "2026-11-22T03:04:05.123456789Z"


def test_everything_that_an_engine_tells_is_read() -> None:
    usage = parse_usage(
        {
            "read": READ,
            "cpu_stats": {"cpu_usage": {"total_usage": 5_000}},
            "memory_stats": {"usage": 900, "max_usage": 1000, "stats": {"inactive_file": 300}},
            "networks": {"eth0": {"rx_bytes": 1, "tx_bytes": 2}, "eth1": {"rx_bytes": 10, "tx_bytes": 20}},
            "blkio_stats": {
                "io_service_bytes_recursive": [
                    {"op": "Read", "value": 7},
                    {"op": "write", "value": 8},
                    {"op": "read", "value": 70},
                    {"op": "Total", "value": 99},
                ]
            },
        }
    )
    assert usage.at == datetime(2026, 11, 22, 3, 4, 5, 123456, tzinfo=UTC)
    assert (usage.cpu_ns, usage.mem_bytes) == (5_000, 600)
    assert (usage.net_received_bytes, usage.net_sent_bytes) == (11, 22)
    assert (usage.disk_read_bytes, usage.disk_written_bytes) == (77, 8)


@pytest.mark.parametrize(
    ("memory", "held"),
    [
        ({"usage": 900, "stats": {"total_inactive_file": 100}}, 800),
        ({"usage": 900}, 900),
        ({"usage": 1, "stats": {"inactive_file": 2}}, 0),
        ({"limit": 5}, None),
    ],
)
def test_memory_is_without_what_would_be_given_back(memory: dict[str, Any], held: int | None) -> None:
    assert parse_usage({"read": READ, "memory_stats": memory}).mem_bytes == held


@pytest.mark.parametrize(
    "told", [{}, {"cpu_stats": {}, "networks": {}, "blkio_stats": {"io_service_bytes_recursive": None}}]
)
def test_what_is_left_out_is_unknown(told: dict[str, Any]) -> None:
    usage = parse_usage({"read": READ, **told})
    assert [
        usage.cpu_ns, usage.mem_bytes, usage.net_received_bytes, usage.net_sent_bytes, usage.disk_read_bytes,
        usage.disk_written_bytes,
    ] == [None] * 6  # fmt: skip
