"""Background work of machines."""

from celery import shared_task

from agents import services, walls
from common.db.advisory_locks import try_exclusive
from common.messaging.dispatch import TaskName


@shared_task(name=TaskName.HEARTBEAT_AGENTS.value, soft_time_limit=60, time_limit=90)
def heartbeat_agents() -> None:
    """One round at a time: a slow one is not overtaken."""
    with try_exclusive("agents.heartbeat") as is_mine:
        if is_mine:
            services.heartbeat_agents()


@shared_task(name=TaskName.KEEP_WALLS.value, soft_time_limit=240, time_limit=300)
def keep_walls() -> None:
    with try_exclusive("agents.walls") as is_mine:
        if is_mine:
            walls.keep_walls()
