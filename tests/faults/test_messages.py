"""Messages between the processes of a portal come twice, late, early and in the wrong order."""

import pytest
import redis
from celery import Celery

from common.messaging.dispatch import QUEUES, TaskName
from tests.faults.conftest import World
from tests.faults.fault import Fault
from tests.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.rare, pytest.mark.timeout(600)]

LAUNCH, TERMINATE = TaskName.LAUNCH_SESSION, TaskName.TERMINATE_SESSION


class Sender:
    """Sends what processes of the portal send."""

    def __init__(self, world: World) -> None:
        self._prefix = f"berth:{world.portal.installation}:"
        self._redis = redis.Redis.from_url(world.portal.redis_url)
        self._app = Celery(broker=world.portal.redis_url)
        self._app.conf.broker_transport_options = {"global_keyprefix": self._prefix}

    def send(self, *names: TaskName, sessions: list[str]) -> None:
        for name in names:
            for session_id in sessions:
                self._app.send_task(name.value, kwargs={"session_id": session_id}, queue=QUEUES[name])

    def all_taken(self) -> bool:
        return all(self._redis.llen(f"{self._prefix}{QUEUES[name]}") == 0 for name in (LAUNCH, TERMINATE))


def test_messages_twice_and_out_of_order(world: World, fault: Fault) -> None:
    """Each message of four launches and ends was sent three more times: the ends before the sessions were to end, the
    launches after they ran, after their end was asked for, and after they had ended."""
    sender = Sender(world)
    fault.begins()
    sessions = world.client.start_many(4)
    sender.send(LAUNCH, TERMINATE, LAUNCH, LAUNCH, sessions=sessions)
    world.client.wait_for(sessions, "RUNNING")
    sender.send(TERMINATE, LAUNCH, sessions=sessions)
    wait_until(sender.all_taken, deadline_s=60)
    world.client.stop(sessions)
    sender.send(LAUNCH, TERMINATE, TERMINATE, LAUNCH, sessions=sessions)
    world.client.wait_for(sessions, "TERMINATED")
    sender.send(LAUNCH, TERMINATE, sessions=sessions)
    wait_until(sender.all_taken, deadline_s=60)
    steps = [[status for status, _ in world.observer.reasons(key)] for key in sessions]
    once = ["PENDING", "SCHEDULED", "PREPARING", "STARTING", "RUNNING", "TERMINATING", "TERMINATED"]
    assert steps == [once] * 4
    fault.recovers("Each session took each step once, and had one container.")
