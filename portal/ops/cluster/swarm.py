"""Docker's swarm of the engines of a cluster, for networks of its kind (overlay) to compare with."""

import http.client
import json
from collections.abc import Sequence
from typing import Any

from portal.ops.cluster.engine import SocketConnection
from portal.ops.cluster.layout import ClusterMachine
from portal.ops.errors import PreflightFailed

LIMIT_S = 60
PORT = 2377


def ensure_swarm(machines: Sequence[ClusterMachine]) -> None:
    """Have all machines in one swarm, whose manager is the first. Raises PreflightFailed."""
    manager, *others = machines
    if not is_member(manager):
        call(manager, "POST", "/swarm/init", listening(manager))
    token = call(manager, "GET", "/swarm")["JoinTokens"]["Worker"]
    for machine in others:
        if not is_member(machine):
            remote = {"RemoteAddrs": [f"{manager.address}:{PORT}"], "JoinToken": token}
            call(machine, "POST", "/swarm/join", {**listening(machine), **remote})


def is_member(machine: ClusterMachine) -> bool:
    return bool(call(machine, "GET", "/info")["Swarm"]["LocalNodeState"] == "active")


def listening(machine: ClusterMachine) -> dict[str, str]:
    return {"ListenAddr": f"{machine.address}:{PORT}", "AdvertiseAddr": str(machine.address)}


def call(machine: ClusterMachine, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Return what the engine answers. Raises PreflightFailed if it refuses."""
    connection = SocketConnection(machine.socket, LIMIT_S)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        said = answer.read()
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise PreflightFailed(
            f"{machine.name} refused {path}: {said.decode(errors='replace').strip()}",
            "A cluster that was made with live-restore has no swarm: bin/cluster down, then up N --swarm",
        )
    return json.loads(said or b"{}")
