"""Celery tasks of folders: purging deleted folders, measuring and sampling sizes."""

from uuid import UUID

from celery import shared_task

from common.db.advisory_locks import try_exclusive
from common.messaging.dispatch import TaskName, enqueue_on_commit
from vfolders import clones, services, trash, usage
from vfolders.files import operations
from vfolders.hosts.health import check_hosts
from vfolders.models import StorageHost
from vfolders.public_links.service import remove_ended_links
from vfolders.reports import directories, samples
from vfolders.sharing.service import remove_ended_shares as remove_shares
from vfolders.uploads import resumable


@shared_task(name=TaskName.PURGE_FOLDERS.value, soft_time_limit=1800, time_limit=1860)
def purge_folders(host_id: int | None = None) -> None:
    """Purge the deleted folders of one storage host, unless its previous round is still running: a large
    folder takes long to remove. Without a host, delete what has been in the trash long enough, and
    enqueue one task for each host with deleted folders, so that one that stalls delays only itself.
    """
    if host_id is None:
        trash.delete_expired()
        for waiting in services.hosts_to_purge():
            enqueue_on_commit(TaskName.PURGE_FOLDERS, host_id=waiting)
        return
    with try_exclusive(f"vfolders.purge.{host_id}") as is_mine:
        if is_mine:
            services.purge_folders(host_id)


@shared_task(name=TaskName.CLONE_FOLDERS.value, soft_time_limit=6 * 3600, time_limit=6 * 3600 + 60)
def clone_folders(folder_id: str = "") -> None:
    """Copy one folder to the end; without an id, enqueue one task for each clone that is not whole, so
    that another worker goes on when one has died.
    """
    if folder_id:
        clones.run_clone(UUID(folder_id))
        return
    for waiting in clones.unfinished_clones():
        enqueue_on_commit(TaskName.CLONE_FOLDERS, folder_id=str(waiting))


@shared_task(name=TaskName.MEASURE_FOLDERS.value, soft_time_limit=2400, time_limit=2460)
def measure_folders(host_id: int | None = None) -> None:
    """Measure the due folders of one storage host; without a host, enqueue one task for each host
    with due folders.

    Only one round runs per host, so that measuring never exceeds its share of one core, and a slow
    or silent host delays only itself.
    """
    if host_id is None:
        for waiting in usage.hosts_with_due_folders():
            enqueue_on_commit(TaskName.MEASURE_FOLDERS, host_id=waiting)
        return
    with try_exclusive(f"vfolders.measure.{host_id}") as is_mine:
        if is_mine:
            usage.measure_due_folders(host_id)


@shared_task(name=TaskName.REMOVE_ENDED_SHARES.value, soft_time_limit=240, time_limit=300)
def remove_ended_shares() -> None:
    """Remove expired shares, invitations and public links, which give no right any more."""
    remove_shares()
    remove_ended_links()


@shared_task(name=TaskName.CHECK_STORAGE_HOSTS.value, soft_time_limit=300, time_limit=360)
def check_storage_hosts() -> None:
    """Mount hosts that are not, and store their health and how full they are."""
    with try_exclusive("vfolders.check_hosts") as is_mine:
        if is_mine:
            check_hosts(StorageHost.objects.all())


@shared_task(name=TaskName.COUNT_DIRECTORIES.value, soft_time_limit=1200, time_limit=1260)
def count_directories(folder_id: str | None = None) -> None:
    """Count the directories of a folder if that was requested; without a folder, of all that wait."""
    directories.count_requested(UUID(folder_id) if folder_id else None)


@shared_task(name=TaskName.SAMPLE_SIZES.value, soft_time_limit=120, time_limit=150)
def sample_sizes() -> None:
    """Store today's sizes of all owners."""
    samples.sample_sizes()


@shared_task(name=TaskName.RUN_FILE_OPERATIONS.value, soft_time_limit=6 * 3600, time_limit=6 * 3600 + 60)
def run_file_operations(operation_id: str = "") -> None:
    """Do one copy, move or unpacking of files; without an id, enqueue one task for each that no worker
    is at.
    """
    if operation_id:
        operations.run_operation(UUID(operation_id))
        return
    for late in operations.late_operations():
        enqueue_on_commit(TaskName.RUN_FILE_OPERATIONS, operation_id=str(late))


@shared_task(name=TaskName.SETTLE_UPLOADS.value, soft_time_limit=1800, time_limit=1860)
def settle_uploads() -> None:
    """Remove expired uploads and what killed processes left of others; finish those that lack only
    their name.
    """
    with try_exclusive("vfolders.uploads") as is_mine:
        if is_mine:
            resumable.settle_uploads()
            resumable.remove_leftovers()
