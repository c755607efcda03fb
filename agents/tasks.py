"""Background work of machines."""

from celery import shared_task

from agents import services
from common.dispatch import TaskName
from common.locks import try_exclusive


@shared_task(name=TaskName.HEARTBEAT_AGENTS.value, soft_time_limit=60, time_limit=90)
def heartbeat_agents() -> None:
    """One round at a time: a slow one is not overtaken."""
    with try_exclusive("agents.heartbeat") as is_mine:
        if is_mine:
            services.heartbeat_agents()
