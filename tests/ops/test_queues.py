"""Each task queue is consumed by one kind of process."""

from pathlib import Path

from agents.machine_images import removal, runner
from agents.relays import containers
from common.messaging.dispatch import QUEUES, TaskName
from portal.ops.paths import Layout
from portal.ops.services.portal_processes import Portal
from portal.ops.services.postgres import SETTINGS
from portal.ops.services.supervisor import Service
from portal.worker_sizes import POOL_THREADS, WEB_CONNECTIONS
from sessions_app.reconciler import loop

STARTED_BY = {
    "images": TaskName.TRANSFER_IMAGES,
    "image-removal": TaskName.REMOVE_IMAGES,
    "relays": TaskName.KEEP_RELAYS,
    "reconcile": TaskName.RECONCILE_SESSIONS,
    "late-heartbeats": TaskName.HEARTBEAT_AGENTS,
}


def processes() -> tuple[Service, ...]:
    layout = Layout(checkout=Path("/berth"), data=Path("/berth/var"))
    return Portal(layout, {}, host="127.0.0.1", port=8080, image="").front()


def queues_by_process() -> dict[str, set[str]]:
    argvs = {service.name: service.argv for service in processes()}
    return {name: set(argv[argv.index("-Q") + 1].split(",")) for name, argv in argvs.items() if "-Q" in argv}


def test_each_queue_is_taken_by_one_process() -> None:
    taken = [queue for queues in queues_by_process().values() for queue in queues]
    assert sorted(taken) == sorted(set(QUEUES.values()))


def test_what_looks_after_all_sessions_does_not_wait_behind_pulls_of_images() -> None:
    [launching] = [queues for queues in queues_by_process().values() if "launch" in queues]
    for task in (TaskName.TICK, TaskName.RECONCILE_SESSIONS, TaskName.HEARTBEAT_AGENTS):
        assert QUEUES[task] not in launching


def test_launches_and_measurements_do_not_wait_behind_ends() -> None:
    [launching] = [queues for queues in queues_by_process().values() if "launch" in queues]
    assert launching == {"launch"}
    [ending] = [queues for queues in queues_by_process().values() if "ends" in queues]
    assert QUEUES[TaskName.MEASURE_SESSIONS] not in ending


def test_every_thread_of_a_worker_that_makes_queries_can_have_a_connection() -> None:
    """Pools that take their size from the table are the ones whose threads make queries."""
    pools = (containers._pool, removal._pool, runner._pool, loop._agent_pool)
    assert {pool.name: pool.count for pool in pools} | {"late-heartbeats": 1} == POOL_THREADS
    connections = {}
    for service in processes():
        if "-c" in service.argv:
            own = set(service.argv[service.argv.index("-Q") + 1].split(","))
            threads = int(service.argv[service.argv.index("-c") + 1])
            started = sum(POOL_THREADS[name] for name, task in STARTED_BY.items() if QUEUES[task] in own)
            connections[service.name] = int(service.environment["BERTH_DB_POOL"])
            assert connections[service.name] >= threads + started
    beat = 1
    reserved_for_superusers = 3
    everything = sum(connections.values()) + WEB_CONNECTIONS + beat + reserved_for_superusers
    assert everything < int(SETTINGS["max_connections"])
