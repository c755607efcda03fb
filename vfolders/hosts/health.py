"""Health of storage hosts: mounted, writable, and how full. No new folders come on an unhealthy host."""

import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import structlog
from django.conf import settings

from common import clock
from common.errors import BerthError
from vfolders.models import StorageHost
from vfolders.selectors import backend_of, calls_of
from vfolders.storage.base import Space, StorageBackend
from vfolders.storage.files import FolderFiles

log = structlog.get_logger(__name__)

AT_ONCE = 8
CHECK_S = 90.0
FILE = "checked"
ERROR_LENGTH = 500


def check_hosts(hosts: Iterable[StorageHost]) -> None:
    """Check these hosts and store what was found. A host that stalls delays no other for longer than
    CHECK_S.
    """
    checked = list(hosts)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="storage-health") as pool:
        results = list(pool.map(look_at, checked))
    for host, (space, error) in zip(checked, results, strict=True):
        store_health(host, space, error)


def store_health(host: StorageHost, space: Space, error: str) -> None:
    """Store the result of a check."""
    if bool(error) != bool(host.error):
        log.warning("storage.health_changed", host=host.name, error=error)
    host.error, host.checked_at = error[:ERROR_LENGTH], clock.now()
    if not error:
        host.total_bytes, host.free_bytes = space.total_bytes, space.free_bytes
    host.save(update_fields=["error", "checked_at", "total_bytes", "free_bytes"])


def look_at(host: StorageHost) -> tuple[Space, str]:
    """Mount the host if it is not, write a file there and return how full it is; or why it is unhealthy.
    Uses no database.
    """
    try:
        storage = backend_of(host)
        return calls_of(host).run(lambda: _look(storage, mark_of(host)), timeout_s=CHECK_S), ""
    except BerthError as error:
        return Space(0, 0), f"{error.message} {error.hint}".strip()


def _look(storage: StorageBackend, mark: UUID) -> Space:
    storage.attach()
    storage.create_folder(mark)
    FolderFiles(storage, mark).write_file((FILE,), [clock.now().isoformat().encode()])
    return storage.space()


def mark_of(host: StorageHost) -> UUID:
    """Return the id of a folder by which portals on other machines know that they see the same files."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"berth:storage-mark:{settings.BERTH_INSTALLATION}:{host.pk}")
