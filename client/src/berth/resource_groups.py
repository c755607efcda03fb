"""Resource groups, as superadmins write them."""

from collections.abc import Iterator, Mapping
from typing import Any

from berth.decoding import decode
from berth.errors import NotFound
from berth.models import GroupGrant, ResourceGroup
from berth.paging import iterate
from berth.policies import scope_id
from berth.transport import Transport, json_of, new_key


class ResourceGroups:
    """`client.managed_groups`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> Iterator[ResourceGroup]:
        return iterate(self._transport, "resource-groups/", ResourceGroup)

    def find(self, text: str) -> ResourceGroup:
        """By name or number. Raises NotFound."""
        for group in self.list():
            if text in (group.name, str(group.id)):
                return group
        raise NotFound(
            f"There is no resource group “{text[:80]}”.", hint="Which there are: berth group list."
        )

    def create(self, name: str, columns: Mapping[str, Any]) -> ResourceGroup:
        """`columns` as the API takes them: {"scheduler": "drf", "max_session_slots": {"cuda": 2}}."""
        body = {"name": name, **columns}
        answer = self._transport.request("POST", "resource-groups/", json=body, headers=new_key())
        return decode(ResourceGroup, json_of(answer))

    def change(self, group_id: int, columns: Mapping[str, Any]) -> ResourceGroup:
        answer = self._transport.request("PATCH", f"resource-groups/{group_id}/", json=dict(columns))
        return decode(ResourceGroup, json_of(answer))

    def delete(self, group_id: int) -> None:
        self._transport.request("DELETE", f"resource-groups/{group_id}/")

    def grants(self, group_id: int) -> Iterator[GroupGrant]:
        return iterate(self._transport, f"resource-groups/{group_id}/grants/", GroupGrant)

    def grant(self, group_id: int, *, level: str, name: str) -> GroupGrant:
        """To the domain, project or user (`level`) called `name`. Raises NotFound."""
        body = {"level": level, "id": scope_id(self._transport, level, name)}
        answer = self._transport.request("POST", f"resource-groups/{group_id}/grants/", json=body)
        return decode(GroupGrant, json_of(answer))

    def revoke(self, group_id: int, *, level: str, name: str) -> None:
        """Raises NotFound."""
        for grant in self.grants(group_id):
            if (grant.level, grant.name) == (level, name):
                self._transport.request("DELETE", f"resource-groups/{group_id}/grants/{grant.id}/")
                return
        raise NotFound(f"The resource group is not granted to the {level} “{name[:80]}”.")

    def add_agent(self, group_id: int, agent: str) -> None:
        """Put a machine, by name, into the group."""
        self._transport.request("POST", f"resource-groups/{group_id}/agents/", json={"agent": agent})
