"""Looks at a portal with many machines from outside, also at machines that the portal cannot reach."""

import time
from collections import Counter
from collections.abc import Sequence

import docker

from portal.ops.cluster.layout import ClusterMachine
from tests.faults.engines import client_of
from tests.faults.observer import SESSION, ObservedEngine, Observer, Row

ATTEMPT = "io.berth.attempt"
GHOST_S = 20
"""Seconds in which a machine that came back is rid of containers that Berth had given up."""
AGENTS = "SELECT id, name, state, last_error, heartbeat_at FROM agents_agent ORDER BY id"
ATTEMPTS = "SELECT session_id::text, max(attempt) AS attempt FROM sessions_app_kernel GROUP BY 1"


class MachineEngine:
    """The engine of a machine, asked by its socket, which no fault of a network touches."""

    def __init__(self, machine: ClusterMachine) -> None:
        self._address = f"unix://{machine.socket}"

    def client(self) -> docker.APIClient:
        return client_of(self._address)


class ClusterObserver(Observer):
    """Knows that a machine may run what Berth has given up until it has been back for GHOST_S; one attempt
    never runs twice, not even then.
    """

    def __init__(
        self, database_url: str, installation: str, engines: Sequence[ObservedEngine], names: Sequence[str]
    ) -> None:
        """`names` are those of the engines' agents."""
        super().__init__(database_url, installation, engines)
        self._names = names
        self._ghosts_since: dict[tuple[int, str], float] = {}

    def agent(self, name: str) -> Row:
        return next(row for row in self.rows(AGENTS) if row["name"] == name)

    def strays(self, ended: dict[str, str], containers: Sequence[Row]) -> list[str]:
        agents = {row["name"]: row for row in self.rows(AGENTS)}
        attempts = {row["session_id"]: row["attempt"] for row in self.rows(ATTEMPTS)}
        ours = [row for row in containers if SESSION in row["Labels"]]
        counts = Counter((row["Labels"][SESSION], row["Labels"][ATTEMPT]) for row in ours)
        now, ghosts = time.monotonic(), dict[tuple[int, str], float]()
        for row in ours:
            session, attempt = row["Labels"][SESSION], int(row["Labels"][ATTEMPT])
            agent = agents[self._names[row["Engine"]]]
            is_watched = agent["state"] in ("connected", "draining") and not agent["last_error"]
            if is_watched and row["State"] == "running" and (session in ended or attempt < attempts[session]):
                key = row["Engine"], row["Id"]
                ghosts[key] = self._ghosts_since.get(key, now)
        self._ghosts_since = ghosts
        return [
            *(f"{count} containers of attempt {key}" for key, count in counts.items() if count > 1),
            *(f"a ghost runs on {self._names[engine]}: {container}"
              for (engine, container), since in ghosts.items() if now - since > GHOST_S),
        ]  # fmt: skip
