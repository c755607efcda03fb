"""Each task queue is consumed by one kind of process."""

from pathlib import Path

from common.messaging.dispatch import QUEUES, TaskName
from portal.ops.paths import Layout
from portal.ops.services.portal_processes import Portal


def queues_by_process() -> dict[str, set[str]]:
    layout = Layout(checkout=Path("/berth"), data=Path("/berth/var"))
    portal = Portal(layout, {}, host="127.0.0.1", port=8080, image="")
    argvs = {service.name: service.argv for service in portal.front()}
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
