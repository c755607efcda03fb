"""Background work of folders."""

from celery import shared_task

from common.dispatch import TaskName
from common.locks import try_exclusive
from vfolders import services, sizes


@shared_task(name=TaskName.PURGE_FOLDERS.value, soft_time_limit=1800, time_limit=1860)
def purge_folders() -> None:
    """One round at a time: a large folder takes long to remove."""
    with try_exclusive("vfolders.purge") as is_mine:
        if is_mine:
            services.purge_folders()


@shared_task(name=TaskName.MEASURE_FOLDERS.value, soft_time_limit=2400, time_limit=2460)
def measure_folders() -> None:
    """One round at a time, so that counting never takes more than its share of one core."""
    with try_exclusive("vfolders.measure") as is_mine:
        if is_mine:
            sizes.measure_due_folders()
