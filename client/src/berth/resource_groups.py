"""Create, change and inspect resource groups, for superadmins."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berth.decoding import Record
from berth.errors import NotFound
from berth.machine_models import GroupGrant, GroupPreemption, GroupReservation, ResourceGroup, Tick, Waits
from berth.paging import Endpoint, iterate
from berth.policies import scope_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing(Record):
    """Fair-share entry of a domain, project or user in a resource group, as fractions of the whole.

    `above` are its domain and project. Within the same parent, the entry with the lowest `counts`
    goes first.
    """

    level: str
    id: int
    name: str
    above: tuple[str, ...] = ()
    weight: float = 1.0
    target: float | None = None
    held: float = 0.0
    lately: float = 0.0
    counts: float = 0.0


class ResourceGroups(Endpoint):
    """Resource groups, as `client.managed_groups`."""

    def list(self) -> Iterator[ResourceGroup]:
        return iterate(self._transport, "resource-groups/", ResourceGroup)

    def find(self, text: str) -> ResourceGroup:
        """Find a resource group by name or id. Raises NotFound."""
        for group in self.list():
            if text in (group.name, str(group.id)):
                return group
        raise NotFound(
            f"There is no resource group “{text[:80]}”.", hint="Which there are: berth group list."
        )

    def create(self, name: str, columns: Mapping[str, Any]) -> ResourceGroup:
        """Create a group; `columns` as in the API: {"scheduler": "drf", "is_public": False}."""
        body = {"name": name, **columns}
        return self._send(ResourceGroup, "POST", "resource-groups/", body, is_new=True)

    def change(self, group_id: int, columns: Mapping[str, Any]) -> ResourceGroup:
        return self._send(ResourceGroup, "PATCH", f"resource-groups/{group_id}/", dict(columns))

    def delete(self, group_id: int) -> None:
        self._transport.request("DELETE", f"resource-groups/{group_id}/")

    def grants(self, group_id: int) -> Iterator[GroupGrant]:
        return iterate(self._transport, f"resource-groups/{group_id}/grants/", GroupGrant)

    def grant(self, group_id: int, *, level: str, name: str) -> GroupGrant:
        """Grant use of the group to the domain, project or user (`level`) called `name`.

        Raises NotFound.
        """
        body = {"level": level, "id": scope_id(self._transport, level, name)}
        return self._send(GroupGrant, "POST", f"resource-groups/{group_id}/grants/", body)

    def revoke(self, group_id: int, *, level: str, name: str) -> None:
        """Revoke the grant of the domain, project or user (`level`) called `name`. Raises NotFound."""
        for grant in self.grants(group_id):
            if (grant.level, grant.name) == (level, name):
                self._transport.request("DELETE", f"resource-groups/{group_id}/grants/{grant.id}/")
                return
        raise NotFound(f"The resource group is not granted to the {level} “{name[:80]}”.")

    def standings(self, group_id: int, level: str = "domain") -> Iterator[Standing]:
        """Yield the fair-share entries of domains, projects or users, next in turn first."""
        return iterate(self._transport, f"resource-groups/{group_id}/weights/", Standing, level=level)

    def set_weight(self, group_id: int, weight: str, *, level: str, name: str) -> None:
        """Set the fair-share weight of the domain, project or user (`level`) called `name`.

        Twice the weight gives twice the share. Raises NotFound.
        """
        body = {"level": level, "id": scope_id(self._transport, level, name), "weight": weight}
        self._transport.request("PUT", f"resource-groups/{group_id}/weights/", json=body)

    def ticks(self, group_id: int) -> Iterator[Tick]:
        """Yield the recent ticks of the group's scheduler, newest first."""
        return iterate(self._transport, f"resource-groups/{group_id}/ticks/", Tick)

    def waits(self, group_id: int) -> Waits:
        return self._send(Waits, "GET", f"resource-groups/{group_id}/waits/")

    def preemptions(self, group_id: int) -> Iterator[GroupPreemption]:
        """Yield the preemptions in the group, newest first."""
        return iterate(self._transport, f"resource-groups/{group_id}/preemptions/", GroupPreemption)

    def reservations(self, group_id: int) -> Iterator[GroupReservation]:
        """Yield current and future reservations, by start."""
        return iterate(self._transport, f"resource-groups/{group_id}/reservations/", GroupReservation)

    def reserve(
        self,
        group_id: int,
        *,
        name: str,
        agents: Sequence[str],
        ends_at: str,
        starts_at: str | None = None,
        grantee: tuple[str, str] | None = None,
        reason: str = "",
    ) -> GroupReservation:
        """Reserve agents, by name, for the (level, name) of a domain, project or user.

        Without a grantee nothing starts on them (maintenance). Instants in ISO 8601. Raises
        NotFound, InvalidInput, Refused.
        """
        body: dict[str, Any] = {
            "name": name, "agents": list(agents), "starts_at": starts_at, "ends_at": ends_at, "reason": reason
        }  # fmt: skip
        if grantee is not None:
            level, grantee_name = grantee
            body |= {"level": level, "id": scope_id(self._transport, level, grantee_name)}
        path = f"resource-groups/{group_id}/reservations/"
        return self._send(GroupReservation, "POST", path, body, is_new=True)

    def change_reservation(self, group_id: int, reservation_id: int, **columns: Any) -> GroupReservation:
        """Change the given columns: `name`, `reason`, `agents`, `starts_at` or `ends_at`.

        Raises NotFound, InvalidInput, Refused.
        """
        path = f"resource-groups/{group_id}/reservations/{reservation_id}/"
        return self._send(GroupReservation, "PATCH", path, columns)

    def unreserve(self, group_id: int, reservation_id: int) -> None:
        self._transport.request("DELETE", f"resource-groups/{group_id}/reservations/{reservation_id}/")

    def add_agent(self, group_id: int, agent: str) -> None:
        """Move an agent, by name, into the group."""
        self._transport.request("POST", f"resource-groups/{group_id}/agents/", json={"agent": agent})
