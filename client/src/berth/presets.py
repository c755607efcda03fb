"""Presets: named sizes of sessions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from berth.amounts import MILLI
from berth.decoding import Record
from berth.paging import Endpoint, find_nearest, iterate


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset(Record):
    """Preset. `resources` by slot in base units; `shm_bytes` is None if shared memory is not set."""

    id: int
    name: str
    sharing: str = "everybody"
    project: str | None = None
    domain: str | None = None
    resources: Mapping[str, int] = field(default_factory=dict)
    shm_bytes: int | None = None
    changed_by: str = ""
    changed_at: datetime | None = None

    @property
    def amounts(self) -> dict[str, str]:
        """Return the amounts as a session request takes them: {"cpu": "8", "mem": "34359738368"}."""
        found = {
            name: str(amount) if name == "mem" else f"{amount / MILLI:g}"
            for name, amount in self.resources.items()
        }
        return found | ({"shm": str(self.shm_bytes)} if self.shm_bytes else {})


class Presets(Endpoint):
    """Presets, as `client.presets`."""

    def list(self) -> Iterator[Preset]:
        return iterate(self._transport, "presets/", Preset)

    def find(self, text: str, *, project: str = "") -> Preset:
        """Find a preset by name or id, of `project` or else of any project of yours.

        Order: your own, the project's, the domain's, those for everybody. Raises NotFound,
        InvalidInput.
        """
        offered = (one for one in self.list() if not project or one.project in (None, project))
        return find_nearest(offered, text, "preset")

    def add(self, name: str, resources: Mapping[str, Any], *, sharing: str, place: str = "") -> Preset:
        """Create a preset for yourself or, as an administrator, for others.

        `sharing` is "own", "project", "domain" or "everybody"; `place` names the project or domain.
        Raises Refused.
        """
        body = {"name": name, "sharing": sharing, "place": place, "resources": dict(resources)}
        return self._send(Preset, "POST", "presets/", body, is_new=True)

    def change(self, preset_id: int, **changes: Any) -> Preset:
        """Change `name` or `resources`; others stay."""
        return self._send(Preset, "PATCH", f"presets/{preset_id}/", changes)

    def remove(self, preset_id: int) -> None:
        self._transport.request("DELETE", f"presets/{preset_id}/")
