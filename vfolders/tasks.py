"""Background work of folders."""

from celery import shared_task

from common.dispatch import TaskName
from common.locks import try_exclusive
from vfolders import services


@shared_task(name=TaskName.PURGE_FOLDERS.value, soft_time_limit=1800, time_limit=1860)
def purge_folders() -> None:
    """One round at a time: a large folder takes long to remove."""
    with try_exclusive("vfolders.purge") as is_mine:
        if is_mine:
            services.purge_folders()
