"""Storage hosts, and how machines reach them; for superadmins, monitors only read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from berth.decoding import Record
from berth.errors import NotFound
from berth.paging import Endpoint, iterate


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReach(Record):
    """Last proof that a machine reaches a host; `is_reached` is None before the first one."""

    agent: str
    is_reached: bool | None = None
    error: str = ""
    checked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageHost(Record):
    """A storage host. `reach`: “local”, “path” (`agent_path`) or “volume” (`volume_options`)."""

    id: int
    name: str
    is_default: bool = False
    is_active: bool = True
    reach: str = ""
    agent_path: str = ""
    volume_options: Mapping[str, str] = field(default_factory=dict)
    has_secret: bool = False
    machines: tuple[MachineReach, ...] = ()


class StorageHosts(Endpoint):
    """Storage hosts, as `client.storage_hosts`."""

    def list(self) -> Iterator[StorageHost]:
        return iterate(self._transport, "storage-hosts/", StorageHost)

    def find(self, text: str) -> StorageHost:
        """Find a storage host by name or id. Raises NotFound."""
        for host in self.list():
            if text in (host.name, str(host.id)):
                return host
        raise NotFound(
            f"There is no storage host “{text[:80]}”.", hint="Which there are: berth storage-host list."
        )

    def change(self, host_id: int, changes: Mapping[str, Any]) -> StorageHost:
        """Change how machines reach a host; they prove it anew. Absent columns stay unchanged."""
        return self._send(StorageHost, "PATCH", f"storage-hosts/{host_id}/", dict(changes))

    def check(self, host_id: int) -> StorageHost:
        """Have all machines prove again, within seconds, that they reach the host."""
        return self._send(StorageHost, "POST", f"storage-hosts/{host_id}/check/")
