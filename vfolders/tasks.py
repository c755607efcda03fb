"""Background work of folders."""

from celery import shared_task

from common.dispatch import TaskName
from vfolders import services


@shared_task(name=TaskName.PURGE_FOLDERS.value, soft_time_limit=1800, time_limit=1860)
def purge_folders() -> None:
    services.purge_folders()
