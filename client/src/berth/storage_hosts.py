"""Storage hosts, and how machines reach them; for superadmins, monitors only read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from berth.decoding import Record, decode
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
class StorageGrant(Record):
    """Rights of a holder (“domain”, “project” or “policy”) on a host."""

    holder: str
    name: str
    rights: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSetting(Record):
    """A setting that a kind of host declares."""

    name: str
    title: str = ""
    help: str = ""
    input: str = "text"
    choices: tuple[str, ...] = ()
    default: str = ""
    example: str = ""
    is_required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageHostKind(Record):
    """A kind of storage host, and what the portal's machine lacks for it."""

    name: str
    title: str = ""
    summary: str = ""
    capabilities: tuple[str, ...] = ()
    is_simulated: bool = False
    needs: str = ""
    lacks: tuple[str, ...] = ()
    settings: tuple[StorageSetting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageHost(Record):
    """A storage host. `reach`: “local”, “path” (`agent_path`) or “volume” (`volume_options`). `error` says
    why it is unhealthy; `total_bytes` is 0 if unknown.
    """

    id: int
    name: str
    is_default: bool = False
    is_active: bool = True
    reach: str = ""
    agent_path: str = ""
    volume_options: Mapping[str, str] = field(default_factory=dict)
    has_secret: bool = False
    kind: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    error: str = ""
    checked_at: datetime | None = None
    total_bytes: int = 0
    free_bytes: int = 0
    folder_bytes: int = 0
    folder_count: int = 0
    is_restricted: bool = False
    grants: tuple[StorageGrant, ...] = ()
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
        """Change a host, or how machines reach it; they prove it anew. Absent columns stay unchanged."""
        return self._send(StorageHost, "PATCH", f"storage-hosts/{host_id}/", dict(changes))

    def check(self, host_id: int) -> StorageHost:
        """Check a host's health now, and have all machines prove again, within seconds, that they reach it."""
        return self._send(StorageHost, "POST", f"storage-hosts/{host_id}/check/")

    def kinds(self) -> tuple[StorageHostKind, ...]:
        """Return the kinds of hosts that can be added."""
        return tuple(
            decode(StorageHostKind, each) for each in self._transport.get_json("storage-host-kinds/")
        )

    def add(self, name: str, kind: str, settings: Mapping[str, str]) -> StorageHost:
        """Add a host: it is prepared, mounted and tried first."""
        body = {"name": name, "kind": kind, "settings": dict(settings)}
        return self._send(StorageHost, "POST", "storage-hosts/", body, is_new=True)

    def remove(self, host_id: int) -> None:
        """Remove a host without folders; its files stay."""
        self._transport.request("DELETE", f"storage-hosts/{host_id}/")

    def set_rights(self, host_id: int, grants: Sequence[Mapping[str, Any]] | None) -> StorageHost:
        """Let only these holders use a host: {"holder", "name", "rights"} each; None: everybody."""
        body = {"is_restricted": grants is not None, "grants": [dict(each) for each in grants or ()]}
        return self._send(StorageHost, "PUT", f"storage-hosts/{host_id}/rights/", body)
