"""Accelerators: what the library sends."""

import httpx

from tests.client.wires import client_on

DEVICE = {"id": 7, "agent": "gpu-01", "agent_id": 3, "slot_name": "cuda", "index": 0, "state": "free"}


def test_a_device_is_withheld_and_released_by_its_number() -> None:
    page = httpx.Response(200, json={"count": 1, "next": None, "previous": None, "results": [DEVICE]})
    client, wire = client_on(page, httpx.Response(200, json={}))
    [device] = client.devices()
    client.withhold_device(device, "noisy fan")
    assert wire.body() == {"because": "noisy fan"}
    client.release_device(device)
    assert wire.paths[1:] == [
        "POST /api/v1/agents/3/devices/7/withhold/",
        "POST /api/v1/agents/3/devices/7/release/",
    ]
