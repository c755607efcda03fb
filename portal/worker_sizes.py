"""Threads of the worker processes; the one place from which their numbers of database connections follow."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WorkerSize:
    """`threads` run tasks of the `queues`. `pools` are further threads that these tasks start and that make
    queries, as {name of the pool: threads}; each may hold a connection while an engine hangs.
    """

    queues: str
    threads: int
    pools: Mapping[str, int] = field(default_factory=dict)

    @property
    def connections(self) -> int:
        """Connections that it needs so that no thread waits for one."""
        return self.threads + sum(self.pools.values())


# Launches wait for slow engines, and terminations for slow programs: separate workers keep them from
# delaying each other and the care of running sessions.
WORKERS: Mapping[str, WorkerSize] = {
    "worker": WorkerSize("launch", 8),
    "ends": WorkerSize("ends,maintenance", 16, {"images": 8, "image-removal": 4, "relays": 8}),
    "tick": WorkerSize("tick,default,metrics", 6, {"reconcile": 16, "late-heartbeats": 1}),
}
POOL_THREADS = {name: count for size in WORKERS.values() for name, count in size.pools.items()}
WEB_CONNECTIONS = 16
"""Connections of a web process, in which further requests wait for one."""
