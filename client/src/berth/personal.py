"""What a person keeps on the portal for themselves: SSH public keys."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from berth.decoding import Record
from berth.people import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKey(Record):
    id: int
    name: str
    key_type: str = ""
    fingerprint: str = ""
    public_key: str = ""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    last_used_ip: str | None = None


class SshKeys(Rows[SshKey]):
    """`client.ssh_keys`: your own public keys. `create(public_key=…, name=…)` adds one, `delete` removes one."""

    kind, path, word, key = SshKey, "ssh-keys/", "ssh-key", "name"

    def _narrowed(self, text: str) -> dict[str, Any]:
        return {}
