"""Storage: limits that apply to the user, sizes of directories, and totals for administrators."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from berth.decoding import Record
from berth.paging import Endpoint, iterate


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteLimit(Record):
    """A limit of bytes. `level`: domain, project, user, host, host_project, host_user or folder."""

    level: str
    scope: str
    limit_bytes: int
    used_bytes: int
    left_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPart(Record):
    host: str
    used_bytes: int
    folder_count: int = 0
    limit_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageStatus(Record):
    """The user's own folders, and all limits that apply."""

    used_bytes: int
    folder_count: int
    most_folders: int | None = None
    limits: tuple[ByteLimit, ...] = ()
    hosts: tuple[HostPart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Total(Record):
    """Storage of one user, project or host. `limit_bytes` is None without a limit."""

    id: int
    name: str
    used_bytes: int
    limit_bytes: int | None = None
    folder_count: int = 0
    growth_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySize(Record):
    name: str
    size_bytes: int
    file_count: int
    is_addressable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryReport(Record):
    """Sizes below a directory as of the last count, biggest first. `is_awaited`: a count is under way."""

    path: str = ""
    counted_at: datetime | None = None
    is_whole: bool = True
    is_awaited: bool = False
    problem: str = ""
    size_bytes: int | None = None
    file_count: int | None = None
    own_bytes: int | None = None
    own_count: int | None = None
    directories: tuple[DirectorySize, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLimits(Record):
    """Limits of bytes of a storage host; None is unlimited."""

    id: int
    name: str
    max_bytes: int | None = None
    max_user_bytes: int | None = None
    max_project_bytes: int | None = None


class Storage(Endpoint):
    """Storage use, as `client.storage`."""

    def status(self) -> StorageStatus:
        """Return the user's storage and its limits."""
        return self._get(StorageStatus, "storage/")

    def users(self, host: str = "") -> Iterator[Total]:
        """Yield totals of the users that one oversees, biggest first; on one host if it is named."""
        return self._totals("users", host)

    def projects(self, host: str = "") -> Iterator[Total]:
        """Yield totals of the projects that one oversees, like `users`."""
        return self._totals("projects", host)

    def hosts(self) -> Iterator[Total]:
        """Yield totals of storage hosts, for superadmins and monitors."""
        return self._totals("hosts", "")

    def set_host_limits(
        self,
        host_id: int,
        *,
        max_bytes: int | None,
        max_user_bytes: int | None,
        max_project_bytes: int | None,
    ) -> HostLimits:
        """Set the limits of a storage host; None is unlimited. For superadmins."""
        body = {
            "max_bytes": max_bytes,
            "max_user_bytes": max_user_bytes,
            "max_project_bytes": max_project_bytes,
        }
        return self._send(HostLimits, "PUT", f"storage-hosts/{host_id}/limits/", body)

    def _totals(self, what: str, host: str) -> Iterator[Total]:
        given = {"host": host} if host else {}
        return iterate(self._transport, f"storage/{what}/", Total, **given)
